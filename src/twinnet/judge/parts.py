"""How far two tensors are apart part by part, so that a large exact part cannot hide a small wrong one.

An output `[boxes | scores]` has boxes of up to 1280 and scores of up to 1: against the whole tensor every score may be
wrong and still look like rounding. Each slice along an axis is therefore measured by its own size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twinnet.judge.aggregate import VISIBLE
from twinnet.precision import TINY

__all__ = ["Apart", "Rounding", "measure", "whole_numbers"]

FAR = 64.0
"""Times the network's own rounding at an output that no rounding of a twin explains."""

_PLAIN = 16.0 * VISIBLE
"""Units of rounding that a part may be off where the network's own rounding is not known."""

_STEP = 4.0
"""Units of rounding that every layer is taken to add, as a random walk, even where none was measured."""

_ENOUGH = 16
"""A slice of fewer elements is not measured by its own size, which may be small by chance."""

_FEW = 0.05
"""The share of slices of one magnitude that makes them a part: fewer are small by chance."""

_SHOWS = 0.1
"""A part is tested if a fault of this share of its size would show."""


@dataclass(frozen=True)
class Rounding:
    """What rounding may do to an output: its unit, the number of layers, and, where measured, each element's noise."""

    unit: float
    layers: int = 0
    noise: np.ndarray | None = None
    whole: float = 0.0
    chance: float = 0.0

    @property
    def steps(self) -> float:
        """Rounding of all layers, relative to the size of a part."""
        return _STEP * self.unit * max(self.layers, 1) ** 0.5


@dataclass(frozen=True, slots=True)
class Apart:
    """The worst part: its error over what it may be (`ratio`), where it is, and how many elements could show a fault.

    `axis` and `index` name the slice; `scale` is the size of that part. `doubtful` elements differ by more than
    rounding of their own size; that of larger ones beside them would explain it, but whether it did is not known.
    """

    ratio: float = 0.0
    error: float = 0.0
    scale: float = 0.0
    axis: int = 0
    index: int = 0
    shown: int = 0
    elements: int = 0
    doubtful: int = 0


def measure(reference: np.ndarray, twin: np.ndarray, rounding: Rounding) -> Apart:
    """The worst part of two tensors of one shape. Places where a side is not finite are left out.

    >>> boxes, scores = np.linspace(1, 1280, 400).reshape(1, 4, 100), np.linspace(0, 1, 100).reshape(1, 1, 100)
    >>> net, twin = np.concatenate([boxes, scores], 1), np.concatenate([boxes, 1 - scores], 1)
    >>> found = measure(net, twin, Rounding(2.0**-24))
    >>> found.ratio > 100, found.axis, found.index
    (True, 1, 4)
    """
    shape = reference.shape if reference.ndim else (1,)
    with np.errstate(all="ignore"):
        size = np.abs(reference.astype(np.float64)).reshape(shape)
        off = np.abs(twin.astype(np.float64).reshape(shape) - reference.astype(np.float64).reshape(shape))
    good = np.isfinite(size) & np.isfinite(off)
    size, off = np.where(good, size, 0.0), np.where(good, off, 0.0)
    noise = None if rounding.noise is None else np.where(good, np.abs(rounding.noise).reshape(shape), 0.0)
    whole = max(float(size.max(initial=0.0)), rounding.whole)
    shown, worst = good.copy(), Apart()
    for axis in _axes(shape):
        others = tuple(a for a in range(len(shape)) if a != axis)
        scale = _scales(size.max(others), size.size // shape[axis])
        limit = _limits(scale, None if noise is None else noise.max(others), whole, rounding)
        error = off.max(others)
        ratio = error / limit
        at = int(ratio.argmax())
        if ratio[at] > worst.ratio:
            worst = Apart(float(ratio[at]), float(error[at]), float(scale[at]), axis, at)
        shown &= ((scale > 0) & (limit <= _SHOWS * scale)).reshape(
            [-1 if a == axis else 1 for a in range(len(shape))]
        )
    doubtful = 0
    if noise is None:
        doubtful = int((off > np.maximum(_PLAIN * rounding.unit * size, FAR * rounding.chance + TINY)).sum())
    return replace(worst, shown=int(shown.sum()), elements=int(size.size), doubtful=doubtful)


def _axes(shape: tuple[int, ...]) -> list[int]:
    """Channels, the last axis, and the batch: along them outputs are put together."""
    if 0 in shape:
        return []
    return sorted(
        {a for a in (0, 1, len(shape) - 1) if a < len(shape) and (shape[a] > 1 or len(shape) == 1)} or {0}
    )


def _scales(largest: np.ndarray, elements: int) -> np.ndarray:
    """The size each slice is measured by: its own, or, where slices are small, that of all of about its magnitude."""
    if elements >= _ENOUGH or largest.size == 1:
        return largest
    scale = largest.copy()
    top = float(largest.max(initial=0.0))
    if not top:
        return scale
    with np.errstate(divide="ignore"):
        level = np.floor(np.log2(top / np.maximum(largest, top * 2.0**-60)) / 5)
    before = top
    for magnitude in np.unique(level):
        members = level == magnitude
        if members.mean() >= _FEW:
            before = float(largest[members].max())
        scale[members] = before
    return scale


def _limits(scale: np.ndarray, noise: np.ndarray | None, whole: float, rounding: Rounding) -> np.ndarray:
    """What each slice may be off. Where its noise is not known, that of a neighbour may have reached it."""
    if noise is None:
        least = FAR * (rounding.unit * whole + rounding.chance) + TINY
        return np.maximum(_PLAIN * rounding.unit * scale, least)
    alive = scale > 0
    usual = float(np.median(noise[alive] / scale[alive])) if alive.any() else 0.0
    least = FAR * (rounding.unit * rounding.whole + rounding.chance) + TINY
    return np.maximum(FAR * np.maximum(noise, max(usual, rounding.steps) * scale), least)


def whole_numbers(array: np.ndarray) -> bool:
    """Whether a tensor of floats holds indices, classes or counts: several whole numbers, and nothing else.

    >>> whole_numbers(np.float32([3, 4000, 17])), whole_numbers(np.float32([0.5, 2]))
    (True, False)
    """
    flat = array.reshape(-1)
    if not np.isfinite(flat).all():
        return False
    return bool((flat == np.rint(flat)).all() and np.abs(flat).max(initial=0.0) > 1)
