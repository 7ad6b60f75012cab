"""Transforms between the twin's form of a tensor and the network's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

__all__ = [
    "IDENTITY",
    "Transform",
    "candidates",
    "channels_first",
    "from_pairs",
    "nearest",
    "turned_or_regrouped",
]


@dataclass(frozen=True, slots=True)
class Transform:
    """From the twin's form to the network's: steps to real numbers, pairs to complex ones, a permutation, a reshape.

    Integers of type `dtype` count steps of `scale` from `zero`: one of each for the tensor, or one for each index
    along `axis`. With `pairs` the twin holds complex numbers as pairs of real ones, along a last axis of 2.

    >>> t = Transform(perm=(0, 3, 1, 2))
    >>> t.to_network(np.zeros((1, 4, 5, 3))).shape, t.to_twin(np.zeros((1, 3, 4, 5))).shape
    ((1, 3, 4, 5), (1, 4, 5, 3))
    >>> q = Transform(scale=(0.5,), zero=(128,), dtype="uint8")
    >>> q.to_network(np.array([130, 128], np.uint8)), q.to_twin(np.array([1.1, -900.0]))
    (array([1., 0.], dtype=float32), array([130,   0], dtype=uint8))
    >>> Transform(pairs=True).to_network(np.array([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """

    perm: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    twin_shape: tuple[int, ...] | None = None
    scale: tuple[float, ...] | None = None
    zero: tuple[int, ...] = (0,)
    axis: int = 1
    dtype: str = "uint8"
    pairs: bool = False

    @property
    def is_identity(self) -> bool:
        return self.perm is None and self.shape is None and self.scale is None and not self.pairs

    @property
    def keeps_axes(self) -> bool:
        """Whether axes stay as they are, and any may be put in another order: steps, if any, are those of all."""
        return self.perm is None and self.shape is None and not self.pairs and len(self.scale or ()) <= 1

    @property
    def is_permutation(self) -> bool:
        """Whether it only gives the axes another order."""
        return self.perm is not None and self.shape is None and self.scale is None and not self.pairs

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
        if self.pairs:
            array = _complex(array)
        if self.perm is not None:
            array = array.transpose(self.perm)
        return array.reshape(self.shape) if self.shape is not None else array

    def to_twin(self, array: np.ndarray) -> np.ndarray:
        """The network's tensor in the twin's form."""
        if self.shape is not None and self.twin_shape is not None:
            array = array.reshape(self.twin_shape)
        array = array.transpose(np.argsort(self.perm)) if self.perm is not None else array
        if self.pairs:
            array = np.stack([np.real(array), np.imag(array)], -1)
        if self.scale is None:
            return array
        info = np.iinfo(self.dtype)
        counted = np.rint(array / self.along(self.scale, array.ndim)) + self.along(self.zero, array.ndim)
        return np.clip(counted, info.min, info.max).astype(self.dtype)

    def __str__(self) -> str:
        words = []
        if self.scale is not None:
            words.append(f"dequantise {self.dtype}")
        if self.pairs:
            words.append("complex from pairs")
        if self.perm is not None:
            words.append("permute " + ",".join(map(str, self.perm)))
        if self.shape is not None:
            words.append("reshape to " + "x".join(map(str, self.shape)))
        return ", ".join(words)


def _complex(pairs: np.ndarray) -> np.ndarray:
    """Complex numbers from pairs of real ones; of booleans, whether either is set."""
    if pairs.dtype == bool:
        return np.asarray(pairs.any(-1))
    wide = pairs if pairs.dtype == np.float64 else pairs.astype(np.float32, copy=False)
    wide = np.ascontiguousarray(wide)
    return wide.view(np.complex128 if wide.dtype == np.float64 else np.complex64)[..., 0]


IDENTITY = Transform()

_LAYOUTS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 0),),
    3: ((0, 2, 1), (1, 0, 2), (2, 0, 1)),
    4: ((0, 3, 1, 2), (0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2)),
    5: ((0, 4, 1, 2, 3), (0, 2, 3, 4, 1)),
}


def from_pairs(network: np.ndarray, twin: np.ndarray) -> Transform | None:
    """The transform for a complex tensor that the twin holds as pairs of real numbers; None if it does not.

    >>> str(from_pairs(np.zeros((2, 3), np.complex64), np.zeros((2, 3, 2), np.float32)))
    'complex from pairs'
    """
    if not np.iscomplexobj(network) or np.iscomplexobj(twin) or twin.ndim < 1 or twin.shape[-1] != 2:
        return None
    if not np.issubdtype(twin.dtype, np.floating):
        return None
    found = candidates(network.shape, twin.shape[:-1])
    return replace(found[0], pairs=True) if found and (found[0].is_identity or len(found) == 1) else None


def candidates(network: Iterable[int], twin: Iterable[int]) -> tuple[Transform, ...]:
    """Transforms from the twin's shape to the network's, likely ones first.

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


def channels_first(network: Iterable[int | str], twin: Iterable[int]) -> Transform | None:
    """The transform from channels last to a network's shape with channels first, with or without a batch axis.

    None if the shapes do not allow it. Where all sizes are equal, both orders are possible: the caller decides. Sizes
    that the network leaves open have names.

    >>> str(channels_first((1, 3, "h", "w"), (1, 4, 5, 3))), str(channels_first((1, 3, 4, 5), (4, 5, 3)))
    ('permute 0,3,1,2', 'permute 2,0,1, reshape to 1x3x4x5')
    >>> channels_first((1, 3, 4, 5), (1, 3, 4, 5)), channels_first((2, 3), (3, 2))
    (None, None)
    """
    want, have = tuple(network), tuple(twin)
    if len(want) < 3 or not 0 <= len(want) - len(have) <= 1:
        return None
    last = len(have) - 1
    perms = [(last, *range(last))] if len(have) < len(want) or last == 2 else []
    if len(have) == len(want):
        perms.insert(0, (0, last, *range(1, last)))
    for perm in perms:
        turned = tuple(have[i] for i in perm)
        whole = turned if len(turned) == len(want) else (1, *turned)
        if all(isinstance(size, str) or size == n for size, n in zip(want, whole)):
            grown = whole != turned
            return Transform(perm, whole if grown else None, turned if grown else None)
    return None


def nearest(ours: np.ndarray, theirs: np.ndarray, fitting: Sequence[Transform]) -> Transform | None:
    """The transform after which the twin's values are nearest to the network's; None if there is none."""
    if len(fitting) < 2 or ours.dtype == bool:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda transform: _apart(transform, ours, theirs))


def _apart(transform: Transform, ours: np.ndarray, theirs: np.ndarray) -> float:
    """The mean difference under a transform."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(transform.to_network(theirs).astype(np.float64) - ours)
    return float(off.sum(where=np.isfinite(off))) / max(off.size, 1)


_LARGE = 1 << 20
_CLEARLY = 0.8


def turned_or_regrouped(turn: Transform, ours: np.ndarray, theirs: np.ndarray) -> Transform:
    """Axes in another order, or the same numbers in groups of another size, as 4 heads of 8 and 8 heads of 4.

    Shapes cannot tell these apart, values can.

    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> turn = Transform(perm=(0, 2, 1))
    >>> str(turned_or_regrouped(turn, x, x.transpose(0, 2, 1))), str(turned_or_regrouped(turn, x, x.reshape(2, 4, 3)))
    ('permute 0,2,1', 'reshape to 2x3x4')
    """
    if turn.perm is None or ours.size > _LARGE or ours.dtype == bool:
        return turn
    regrouped = Transform(shape=ours.shape, twin_shape=theirs.shape)
    off = _apart(turn, ours, theirs)
    return regrouped if off and _apart(regrouped, ours, theirs) < _CLEARLY * off else turn
