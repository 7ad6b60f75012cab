"""How the twin's tensor must be turned to stand beside the network's, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

__all__ = ["IDENTITY", "Transform", "candidates"]


@dataclass(frozen=True, slots=True)
class Transform:
    """From the twin's form to the network's: steps to real numbers, an axis permutation, then a reshape.

    Integers of type `dtype` count steps of `scale` from `zero`: one of each for the tensor, or one for each index
    along `axis`.

    >>> t = Transform(perm=(0, 3, 1, 2))
    >>> t.to_network(np.zeros((1, 4, 5, 3))).shape, t.to_twin(np.zeros((1, 3, 4, 5))).shape
    ((1, 3, 4, 5), (1, 4, 5, 3))
    >>> q = Transform(scale=(0.5,), zero=(128,), dtype="uint8")
    >>> q.to_network(np.array([130, 128], np.uint8)), q.to_twin(np.array([1.1, -900.0]))
    (array([1., 0.], dtype=float32), array([130,   0], dtype=uint8))
    """

    perm: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    twin_shape: tuple[int, ...] | None = None
    scale: tuple[float, ...] | None = None
    zero: tuple[int, ...] = (0,)
    axis: int = 1
    dtype: str = "uint8"

    @property
    def is_identity(self) -> bool:
        return self.perm is None and self.shape is None and self.scale is None

    @property
    def is_permutation(self) -> bool:
        """Whether it only gives the axes another order."""
        return self.perm is not None and self.shape is None and self.scale is None

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest real number that its integers can hold, in any channel."""
        info, scale = np.iinfo(self.dtype), np.array(self.scale or (1.0,))
        zero = np.array(self.zero)
        return float(((info.min - zero) * scale).min()), float(((info.max - zero) * scale).max())

    def along(self, values: tuple[float, ...] | tuple[int, ...], rank: int) -> np.ndarray:
        """Figures of each channel in a shape that broadcasts with a tensor of this rank."""
        if len(values) == 1:
            return np.array(values[0])
        return np.array(values).reshape([-1 if a == self.axis % rank else 1 for a in range(rank)])

    def to_network(self, array: np.ndarray) -> np.ndarray:
        """The twin's tensor in the network's form."""
        if self.scale is not None:
            centred = array.astype(np.float64) - self.along(self.zero, array.ndim)
            array = (centred * self.along(self.scale, array.ndim)).astype(np.float32)
        if self.perm is not None:
            array = array.transpose(self.perm)
        return array.reshape(self.shape) if self.shape is not None else array

    def to_twin(self, array: np.ndarray) -> np.ndarray:
        """The network's tensor in the twin's form."""
        if self.shape is not None and self.twin_shape is not None:
            array = array.reshape(self.twin_shape)
        array = array.transpose(np.argsort(self.perm)) if self.perm is not None else array
        if self.scale is None:
            return array
        info = np.iinfo(self.dtype)
        counted = np.rint(array / self.along(self.scale, array.ndim)) + self.along(self.zero, array.ndim)
        return np.clip(counted, info.min, info.max).astype(self.dtype)

    def __str__(self) -> str:
        words = []
        if self.scale is not None:
            words.append(f"dequantise {self.dtype}")
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
