"""Prepare two tensors for display: their difference, its worst plane, and reductions that keep outliers.

Shared by the terminal drawing and the pictures of the HTML report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Compared", "Histogram", "Plane", "reduce_mean", "reduce_peak"]


@dataclass(frozen=True, slots=True)
class Plane:
    """The two-dimensional slice around the worst element; `place` spells the slice, as in "[0, 3, :, :]"."""

    reference: np.ndarray
    twin: np.ndarray
    difference: np.ndarray
    place: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of |difference| by powers of ten; `edges` are exponents, `equal` and `odd` stand beside them.

    `cut` says that the first bin also holds whatever is smaller.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    equal: int
    odd: int
    cut: bool = False


@dataclass(frozen=True)
class Compared:
    """A tensor of the network and its twin of the same shape, with figures computed when asked for.

    >>> Compared.of(np.array([1.0, np.nan, np.inf]), np.array([1.5, np.nan, 0.0])).difference
    array([0.5, 0. , nan])
    """

    reference: np.ndarray
    twin: np.ndarray
    dtype: str = ""

    @classmethod
    def of(cls, reference: np.ndarray, twin: np.ndarray) -> Compared:
        """Any dtype; both sides must have one shape."""
        reference, twin = np.asarray(reference), np.asarray(twin)
        if reference.shape != twin.shape:
            raise ValueError(f"shapes differ: {reference.shape} and {twin.shape}")
        names = dict.fromkeys((reference.dtype.name, twin.dtype.name))
        return cls(_real(reference), _real(twin), " / ".join(names))

    @cached_property
    def difference(self) -> np.ndarray:
        """Twin minus network; 0 where both hold the same NaN or Inf, NaN where only one of them does."""
        a, b = self.reference, self.twin
        with np.errstate(all="ignore"):
            found = b - a
            if np.isfinite(found).all():
                return found
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            odd = ~same & ~(np.isfinite(a) & np.isfinite(b))
        # The difference of two finite values can overflow: the largest number is used instead.
        largest = np.finfo(found.dtype).max
        return np.where(odd, np.nan, np.where(same, 0, np.clip(found, -largest, largest))).astype(found.dtype)

    @cached_property
    def size(self) -> np.ndarray:
        """|difference|, with Inf in place of NaN so that an odd element counts as the worst there is."""
        size = np.abs(self.difference)
        return np.where(np.isnan(size), np.inf, size).astype(size.dtype) if self.odd else size

    @cached_property
    def odd(self) -> int:
        """How many elements differ in being NaN or infinite."""
        return int(np.isnan(self.difference).sum())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.reference.shape

    @cached_property
    def index(self) -> tuple[int, ...]:
        """Where the worst element is; empty for an empty or a scalar tensor."""
        if not self.size.size:
            return ()
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(self.size)), self.shape))

    @property
    def differing(self) -> int:
        return int((self.size > 0).sum())

    @cached_property
    def largest(self) -> float:
        """The largest finite difference."""
        return float(self._finite.max()) if self._finite.size else 0.0

    @property
    def mean(self) -> float:
        """The mean of the finite differences."""
        if not self.largest:
            return 0.0
        with np.errstate(over="ignore"):
            mean = float(self._finite.mean(dtype=np.float64))
        # The sum of very large differences is not a number: those are scaled first.
        return mean if math.isfinite(mean) else float((self._finite / self.largest).mean()) * self.largest

    @property
    def _finite(self) -> np.ndarray:
        return self.size[np.isfinite(self.size)] if self.odd else self.size.ravel()

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest finite value of the network's tensor."""
        finite = self.reference[np.isfinite(self.reference)]
        return (float(finite.min()), float(finite.max())) if finite.size else (math.nan, math.nan)

    @property
    def channel_axis(self) -> int | None:
        """Axis 1 of a tensor with three or more axes, else the last axis."""
        return None if not self.shape else 1 if len(self.shape) >= 3 else len(self.shape) - 1

    @cached_property
    def channels(self) -> np.ndarray:
        """The largest difference of each channel (Inf where it has an odd element)."""
        axis = self.channel_axis
        if axis is None or not self.size.size:
            return np.zeros(0)
        return self.size.max(axis=tuple(i for i in range(len(self.shape)) if i != axis))

    def plane(self) -> Plane:
        """The slice to draw: the last two axes at the worst element; whole vectors and scalars as one row."""
        shape = self.shape
        if len(shape) <= 2:
            parts = (np.atleast_2d(x) for x in (self.reference, self.twin, self.difference))
            return Plane(*parts, place=f"[{', '.join(':' for _ in shape)}]")
        if not self.size.size:
            empty = np.zeros((0, 0))
            return Plane(empty, empty, empty, "[]")
        lead = self.index[:-2]
        place = f"[{', '.join([*(str(i) for i in lead), ':', ':'])}]"
        return Plane(self.reference[lead], self.twin[lead], self.difference[lead], place)

    def histogram(self, per_decade: int = 1, most: int = 48) -> Histogram:
        """How many elements differ by how much, on a logarithmic axis."""
        sizes = self._finite[self._finite > 0]
        equal = self.size.size - sizes.size - self.odd
        if not sizes.size:
            return Histogram((), (), equal, self.odd)
        logs = np.log10(sizes)
        lowest, high = math.floor(float(logs.min())), math.floor(float(logs.max())) + 1
        # A few denormal differences must not stretch the axis beyond reading: they share the first bin.
        low = max(lowest, high - most // per_decade)
        bins = (high - low) * per_decade
        places = ((logs - low) * per_decade).astype(np.int32).clip(0, bins - 1)
        counts = np.bincount(places, minlength=bins)
        edges = tuple(low + i / per_decade for i in range(bins + 1))
        return Histogram(edges, tuple(int(c) for c in counts), equal, self.odd, cut=low > lowest)


def _real(array: np.ndarray) -> np.ndarray:
    """As a float wide enough to hold every value; complex numbers by their two parts."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "c":
        return np.stack([np.real(array), np.imag(array)], axis=-1)
    if kind in "iu" and size == 8:
        return array.astype(np.longdouble)
    if kind in "iu" and size == 4:
        return array.astype(np.float64)
    return array if kind == "f" and size >= 4 else array.astype(np.float32)


def reduce_peak(plane: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """At most `rows` x `columns`: each cell holds the value of largest size in its block, or a NaN.

    >>> reduce_peak(np.array([[0.0, -3.0, 1.0, 0.5]]), 1, 2)
    array([[-3.,  1.]])
    """
    high = _blocks(np.maximum, plane, rows, columns)
    low = _blocks(np.minimum, plane, rows, columns)
    return np.where(np.abs(low) > np.abs(high), low, high)


def reduce_mean(plane: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """At most `rows` x `columns`: each cell holds the mean of its block; NaN and Inf stay visible."""
    with np.errstate(invalid="ignore"):
        total = _blocks(np.add, plane, rows, columns)
    return total / _blocks(np.add, np.ones(plane.shape), rows, columns)


def _blocks(reduce: np.ufunc, plane: np.ndarray, rows: int, columns: int) -> np.ndarray:
    for axis, most in ((0, rows), (1, columns)):
        length = plane.shape[axis]
        if length > most:
            starts = (np.arange(most) * length) // most
            plane = reduce.reduceat(plane, starts, axis=axis)
    return np.asarray(plane, dtype=np.float64)
