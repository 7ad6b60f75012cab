"""How far two tensors are apart: every figure in one pass over blocks that fit the cache.

Tensors of different shape are refused, never broadcast. NaN and Inf are compared as masks first; the figures are taken
over the places where both sides are finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from twinnet.precision import dtype_class
from twinnet.result import Difference, Fact, fact

__all__ = ["bit_equal", "compare", "hull_of", "same_bits", "ulp_distance", "why_not"]

_BLOCK = 1 << 15
_MANY = 256
"""From this many points on, dropping most of them first is faster than taking them one by one."""
_SWEEPS = 3
_INT_OF = {2: np.int16, 4: np.int32, 8: np.int64}


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype hold the same bytes."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    if a.nbytes == 0:
        return True
    wide = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    x, y = a.view(np.uint8).view(wide), b.view(np.uint8).view(wide)
    return all(np.array_equal(x[i : i + _BLOCK], y[i : i + _BLOCK]) for i in range(0, x.size, _BLOCK))


def bit_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal as values, NaN counting as equal to NaN; -0.0 equals 0.0."""
    return same_bits(a, b) or (
        a.shape == b.shape and np.array_equal(a, b, equal_nan=dtype_class(a.dtype) == "float")
    )


def ulp_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance in representable numbers between finite floats of one dtype; -0.0 and 0.0 are the same number.

    >>> int(ulp_distance(np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)))[0])
    1
    """
    kind = _INT_OF[a.dtype.itemsize]
    low = np.iinfo(kind).min

    def ordered(x: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(x).view(kind)
        # Negative floats count backwards: reflect them below zero so that order and distance agree.
        return np.where(bits < 0, np.subtract(low, bits, dtype=kind), bits)

    x, y = ordered(a), ordered(b)
    if x.dtype == np.int64:
        far = np.subtract(x.astype(np.float64), y.astype(np.float64))
        near = np.abs(np.subtract(x, y))
        return np.where(np.abs(far) > 2.0**62, np.int64(2**62), near)
    return np.abs(x.astype(np.int64) - y.astype(np.int64))


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def compare(reference: np.ndarray, twin: np.ndarray) -> Difference:
    """All figures of `Difference` for two tensors of the same shape and dtype class.

    PSNR takes the reference's range as the signal's full scale.

    >>> compare(np.float32([0, 1, 2]), np.float32([0, 1, 2.5])).max_abs
    0.5
    """
    if reference.shape != twin.shape:
        raise ValueError(f"shapes {reference.shape} and {twin.shape} differ")
    if reference.size == 0:
        return Difference()
    if dtype_class(reference.dtype) == "complex":
        reference, twin = _as_pairs(reference), _as_pairs(twin)
    return _Sums(reference, twin).difference()


def why_not(ours: np.ndarray, theirs: np.ndarray) -> Fact | None:
    """Why two tensors cannot be compared number by number; None if they can be.

    >>> str(why_not(np.zeros(3), np.zeros((3, 1)))), str(why_not(np.zeros(3), np.zeros(3, int)))
    ('shape 3x1 where the network has 3', 'int64 where the network has float64')
    """
    if ours.shape != theirs.shape:
        return fact("shape.differs", network=ours.shape, twin=theirs.shape)
    if dtype_class(ours.dtype) != dtype_class(theirs.dtype):
        return fact("type.differs", network=ours.dtype.name, twin=theirs.dtype.name)
    return None


def _as_pairs(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    part = np.float32 if array.dtype == np.complex64 else np.float64
    return array.view(part).reshape(*array.shape, 2)


class _Sums:
    """Sums, extremes and the tolerance hull of one pair of tensors."""

    def __init__(self, reference: np.ndarray, twin: np.ndarray) -> None:
        self.shape = reference.shape
        self.size = reference.size
        self.floats = dtype_class(reference.dtype) == "float"
        self.one_dtype = reference.dtype == twin.dtype
        self.low, self.high = math.inf, -math.inf
        self.max_abs, self.at = 0.0, 0
        self.abs = self.square = self.signal = self.twin_signal = self.cross = 0.0
        self.finite = self.differing = self.mismatch = 0
        self.nans, self.infs = [0, 0], [0, 0]
        self.ulp = 0
        self.hull = _Hull()
        x, y = np.ascontiguousarray(reference).reshape(-1), np.ascontiguousarray(twin).reshape(-1)
        self._x, self._y = x, y
        self._wide = x.dtype == y.dtype and x.dtype in (np.int64, np.uint64)
        work = np.float64 if not self.floats or max(x.dtype.itemsize, y.dtype.itemsize) == 8 else np.float32
        for part in _blocks(self.size):
            a, b = x[part].astype(work, copy=False), y[part].astype(work, copy=False)
            index = None
            norm, twin_norm = _dot(a, a), _dot(b, b)
            if self.floats and not (math.isfinite(norm) and math.isfinite(twin_norm)):
                a, b, index = self._finite(a, b)
                if a.size == 0:
                    continue
                norm, twin_norm = _dot(a, a), _dot(b, b)
            self.low = min(self.low, float(a.min()))
            self.high = max(self.high, float(a.max()))
            self.finite += a.size
            self.signal += norm
            self.twin_signal += twin_norm
            self.cross += self._differ(a, b, part, index, norm, twin_norm)

    def _finite(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        for i, values in enumerate((a, b)):
            self.nans[i] += int(np.isnan(values).sum())
            self.infs[i] += int(np.isinf(values).sum())
        good = np.isfinite(a) & np.isfinite(b)
        bad = ~good
        same = (np.isnan(a) & np.isnan(b)) | (a == b)
        self.mismatch += int((bad & ~same).sum())
        index = np.flatnonzero(good)
        return a[index], b[index], index

    def _size(self, a: np.ndarray, b: np.ndarray, part: slice) -> np.ndarray:
        """|b - a|, in a format that holds it."""
        if self._wide:
            x, y = self._x[part], self._y[part]
            # The larger minus the smaller, modulo 2**64: exact for every pair of 64-bit integers of one kind.
            apart = np.maximum(x, y).view(np.uint64) - np.minimum(x, y).view(np.uint64)
            return apart.astype(np.float64)
        # Close numbers subtract exactly (Sterbenz); for distant ones rounding of the difference is harmless.
        with np.errstate(over="ignore"):
            size = np.subtract(b, a)
        return np.abs(size, out=size)

    def _differ(
        self,
        a: np.ndarray,
        b: np.ndarray,
        part: slice,
        index: np.ndarray | None,
        norm: float,
        twin_norm: float,
    ) -> float:
        """Take the differences of one block; returns the product of the two."""
        size = self._size(a, b, part)
        at = int(size.argmax())
        most = float(size[at])
        if most == 0.0:
            return norm
        if size.dtype == np.float32 and not math.isfinite(most):  # two huge numbers of opposite sign
            size = np.abs(np.subtract(b, a, dtype=np.float64))
            most = float(size[at])
        square = _dot(size, size)
        self.square += square
        self.abs += float(size.sum(dtype=np.float64) if most > 1e30 else size.sum())
        self.differing += int(np.count_nonzero(size != 0))
        if most > self.max_abs:
            self.max_abs = most
            self.at = part.start + (int(index[at]) if index is not None else at)
        if self.floats and self.one_dtype:
            xs, ys = self._x[part], self._y[part]
            if index is not None:
                xs, ys = xs[index], ys[index]
            self.ulp = max(self.ulp, _largest_ulp(xs, ys, most))
        self.hull.add(a, size)
        # Close together the product follows from the rest; far apart that would cancel.
        close = square <= 0.01 * math.sqrt(norm) * math.sqrt(twin_norm)
        return (norm + twin_norm - square) / 2 if close else _dot(a, b)

    def difference(self) -> Difference:
        n = max(self.finite, 1)
        span = self.high - self.low if self.finite else 0.0
        mse = self.square / n
        index = tuple(int(i) for i in np.unravel_index(self.at, self.shape)) if self.max_abs > 0 else ()
        channel = index[_channel_axis(len(self.shape))] if len(index) >= 2 else None
        return Difference(
            elements=self.size,
            max_abs=self.max_abs,
            mean_abs=self.abs / n,
            relative=_ratio(self.max_abs, span or abs(self.high)) if self.finite else 0.0,
            mse=mse,
            snr=_decibel(self.signal / n, mse),
            psnr=_decibel(span * span, mse),
            cosine=self._cosine(),
            ulp=self.ulp if self.floats and self.one_dtype else None,
            differing=self.differing + self.mismatch,
            nan_reference=self.nans[0],
            nan_twin=self.nans[1],
            inf_reference=self.infs[0],
            inf_twin=self.infs[1],
            nonfinite_mismatch=self.mismatch,
            channel=channel,
            channel_max_abs=None if channel is None else self.max_abs,
            index=index,
            value_reference=float(self._x[self.at]) if self.max_abs > 0 else None,
            value_twin=float(self._y[self.at]) if self.max_abs > 0 else None,
            range_reference=(self.low, self.high) if self.finite else (math.nan, math.nan),
            hull=self.hull.points(),
        )

    def _cosine(self) -> float:
        if self.square == 0:
            return 1.0
        a, b = math.sqrt(self.signal), math.sqrt(self.twin_signal)
        if a == 0 or b == 0:
            return 0.0
        if self.square > 0.01 * a * b:
            return min(1.0, max(-1.0, self.cross / a / b))
        # Close together: 1 - cos from the difference itself, as the quotient loses everything below 1e-7.
        return max(-1.0, 1.0 - (self.square - (a - b) ** 2) / (2 * a * b))


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        found = float(np.dot(a, b))
    if a.dtype == np.float32 and not 1e-30 < abs(found) < 1e30:
        # Products left the range of float32 (or are 0 in any format, or cancelled).
        found = float(np.dot(a.astype(np.float64), b.astype(np.float64)))
    return found


def _ratio(a: float, b: float) -> float:
    return a / b if b else (0.0 if a == 0 else math.inf)


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    if signal == 0 or noise == math.inf:
        return math.nan if signal == math.inf else -math.inf
    return 10.0 * (math.log10(signal) - math.log10(noise))


def _largest_ulp(a: np.ndarray, b: np.ndarray, most: float) -> int:
    if a.dtype == np.float32 and most < 1.0:
        # Bit patterns of one sign are ordered like the numbers. Opposite signs this close together (both
        # below 1) give a distance beyond 2^30, as no other pair of such numbers does.
        apart = a.view(np.int32) - b.view(np.int32)
        far = max(int(apart.max()), -int(apart.min()))
        if far < 1 << 30:
            return far
    return int(ulp_distance(a, b).max())


def _channel_axis(rank: int) -> int:
    """Axis 1 from three axes on, else the last."""
    return 1 if rank >= 3 else rank - 1


class _Hull:
    """Upper left convex hull of the points (|reference|, |difference|).

    It decides every tolerance of the form atol + rtol * |reference| exactly, in a handful of numbers. Few
    points of a tensor can lie on it: a table over the leading bits of the level drops all that lie under the
    hull so far, and of many points the highest of each bin are taken first, since hardly any other stays above those.
    """

    _SHIFT = 20  # sign, exponent and three bits of the mantissa of a float32
    _BINS = 2048
    _EDGES = (np.arange(_BINS, dtype=np.int32) << _SHIFT).view(np.float32)
    # Numbers beyond float32 share the last bin, which begins where float32 ends.
    _EDGES = np.where(np.isfinite(_EDGES), _EDGES, np.finfo(np.float32).max)

    def __init__(self) -> None:
        self._hull: list[tuple[float, float]] = []
        self._table = np.zeros(self._BINS, np.float32)

    def add(self, values: np.ndarray, size: np.ndarray) -> None:
        """Take one block: the reference's values, and how far the twin is from each."""
        with np.errstate(over="ignore"):
            bits = values.astype(np.float32, copy=False).view(np.uint32)
        bins = np.left_shift(bits, 1)
        np.right_shift(bins, self._SHIFT + 1, out=bins)
        keep = np.flatnonzero(size > self._table.take(bins))
        if keep.size > _MANY:
            sizes, at = size[keep], bins[keep].astype(np.intp)
            highest = np.zeros(self._BINS, size.dtype)
            np.maximum.at(highest, at, sizes)
            self._merge(values, size, keep[sizes == highest[at]])
            keep = keep[sizes > self._table.take(at)]
        if keep.size:
            self._merge(values, size, keep)

    def _merge(self, values: np.ndarray, size: np.ndarray, keep: np.ndarray) -> None:
        level, size = np.abs(values[keep]).astype(np.float64), size[keep].astype(np.float64)
        if self._hull:
            level = np.concatenate([[p[0] for p in self._hull], level])
            size = np.concatenate([[p[1] for p in self._hull], size])
        self._hull = _upper_left(level, size)
        levels, sizes = zip(*self._hull, strict=True)
        table = np.interp(self._EDGES, levels, sizes, left=0.0, right=sizes[-1])
        # Points on the hull itself need not come back; rounding to float32 must not drop one above it.
        self._table = np.where(table > 0, table * (1 - 1e-6), 0).astype(np.float32)

    def points(self) -> tuple[tuple[float, float], ...]:
        """The hull from the smallest level to the largest difference."""
        return tuple(p for p in self._hull if p[1] > 0)


def hull_of(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The hull of the points of several hulls.

    >>> hull_of([(1.0, 0.1), (2.0, 0.5), (3.0, 0.4)])
    ((1.0, 0.1), (2.0, 0.5))
    """
    several = tuple(points)
    if not several:
        return ()
    level, size = (np.array(column) for column in zip(*several, strict=True))
    return tuple(_upper_left(level, size))


def _upper_left(level: np.ndarray, size: np.ndarray) -> list[tuple[float, float]]:
    order = np.argsort(level)
    level, size = level[order], size[order]
    best = np.maximum.accumulate(size)
    record = np.ones(level.size, bool)
    record[1:] = best[1:] > best[:-1]
    level, size = level[record], size[record]
    # Of several records at one level the last is the highest.
    last = np.append(level[1:] != level[:-1], True)
    level, size = level[last], size[last]
    # No point under the line between its neighbours is a corner: of many points this drops most at once.
    for _ in range(_SWEEPS if level.size > _MANY else 0):
        points = np.stack([level, size])
        corner = np.ones(level.size, bool)
        corner[1:-1] = ~_under(points[:, :-2], points[:, 1:-1], points[:, 2:])
        level, size = level[corner], size[corner]
    hull: list[tuple[float, float]] = []
    for point in zip(level.tolist(), size.tolist(), strict=True):
        while len(hull) > 1 and _under(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _under(a: Any, b: Any, c: Any) -> Any:
    """Whether b lies on or under the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])
