"""How the twin's tensor must be turned to stand beside the network's, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from twinnet.layers.step import Step

__all__ = ["IDENTITY", "Transform", "candidates"]


@dataclass(frozen=True, slots=True)
class Transform:
    """From the twin's form to the network's: out of its quantised steps, an axis permutation, then a reshape.

    >>> t = Transform(perm=(0, 3, 1, 2))
    >>> t.to_network(np.zeros((1, 4, 5, 3))).shape, t.to_twin(np.zeros((1, 3, 4, 5))).shape
    ((1, 3, 4, 5), (1, 4, 5, 3))
    """

    perm: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    twin_shape: tuple[int, ...] | None = None
    step: Step | None = field(default=None, compare=False)

    @property
    def is_identity(self) -> bool:
        return self.perm is None and self.shape is None and self.step is None

    def to_network(self, array: np.ndarray) -> np.ndarray:
        """The twin's tensor in the network's form."""
        if self.step is not None:
            array = self.step.to_real(array)
        return self.to_layout(array)

    def to_layout(self, array: np.ndarray) -> np.ndarray:
        """Real numbers of the twin's form in the network's."""
        if self.perm is not None:
            array = array.transpose(self.perm)
        return array.reshape(self.shape) if self.shape is not None else array

    def to_twin(self, array: np.ndarray) -> np.ndarray:
        """The network's tensor in the twin's form."""
        if self.shape is not None and self.twin_shape is not None:
            array = array.reshape(self.twin_shape)
        array = array.transpose(np.argsort(self.perm)) if self.perm is not None else array
        return array if self.step is None else self.step.to_whole(array)

    def __str__(self) -> str:
        words = [] if self.step is None else [str(self.step)]
        if self.perm is not None:
            words.append("permute " + ",".join(map(str, self.perm)))
        if self.shape is not None:
            words.append("reshape to " + "x".join(map(str, self.shape)))
        return ", ".join(words)


IDENTITY = Transform()

_LAYOUTS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 0),),
    3: ((0, 2, 1), (1, 0, 2), (2, 0, 1)),
    4: ((0, 3, 1, 2), (0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2)),
    5: ((0, 4, 1, 2, 3), (0, 2, 3, 4, 1)),
}


def candidates(network: Iterable[int], twin: Iterable[int]) -> tuple[Transform, ...]:
    """Transforms that bring a tensor of the twin's shape to the network's, the likely ones first.

    >>> [str(t) for t in candidates((1, 3, 4, 5), (1, 4, 5, 3))]
    ['permute 0,3,1,2']
    """
    want, have = tuple(network), tuple(twin)
    if math.prod(want) != math.prod(have):
        return ()
    found: list[Transform] = [IDENTITY] if want == have else []
    for perm in _LAYOUTS.get(len(have), ()):
        if tuple(have[i] for i in perm) == want:
            found.append(Transform(perm=perm))
    squeezed = [n for n in want if n != 1] == [n for n in have if n != 1]
    if want != have and squeezed:
        found.append(Transform(shape=want, twin_shape=have))
    return tuple(found)
