"""The smallest input, and the fewest channels, that still show the fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx

from twinnet.onnx.cut import weights_of, with_weights
from twinnet.shrink.trial import Bench, Candidate, Outcome

__all__ = ["simpler_values", "smaller_input"]

_LARGE = 4096


def smaller_input(bench: Bench, candidate: Candidate) -> Candidate:
    """Crop samples, channels, rows and columns: first all axes of one size together, then axis by axis."""
    found = bench.shows(candidate)
    changed = found is not None and candidate.alike
    with_channels = _same_weights(candidate)
    while changed and found is not None:
        changed = False
        for n in sorted(_sizes(candidate), reverse=True) if with_channels else ():
            kept = _crop_size(bench, candidate, found, n)
            if kept is not None:
                candidate, found = kept
                changed = True
        for name, axis in _axes(candidate):
            kept = _crop_axis(bench, candidate, found, name, axis)
            if kept is not None:
                candidate, found = kept
                changed = True
    return candidate


def _same_weights(candidate: Candidate) -> bool:
    """Whether the weights of both sides lie in the same order, so that the same cut takes the same channels."""
    if candidate.same_file:
        return True
    ours, theirs = weights_of(candidate.network), weights_of(candidate.twin)
    if ours.keys() != theirs.keys() or any(ours[n].shape != theirs[n].shape for n in ours):
        return False
    floats = (n for n in ours if ours[n].dtype.kind == "f")
    return sum(not np.array_equal(ours[n], theirs[n], equal_nan=True) for n in floats) <= 1


def _sizes(candidate: Candidate) -> set[int]:
    return {n for a in candidate.feeds.values() for n in a.shape if n > 1} | {
        n for w in weights_of(candidate.network).values() if w.dtype.kind == "f" for n in w.shape if n > 1
    }


def _axes(candidate: Candidate) -> list[tuple[str, int]]:
    return [(name, i) for name, a in candidate.feeds.items() for i, n in enumerate(a.shape) if n > 1]


def _windows(n: int, at: int) -> Iterator[slice]:
    """Windows of an axis of length `n`, the smallest first: around position `at`, at the start, at the end."""
    size = 1
    while size < n:
        starts = dict.fromkeys((min(max(at - size // 2, 0), n - size), 0, n - size))
        for start in starts:
            yield slice(start, start + size)
        size += 1 if size < 5 else max(size // 2, 1)


def _worst_index(bench: Bench, candidate: Candidate, found: Outcome, n: int) -> int:
    """Where along an axis of length `n` the output differs most; the middle if no output axis has that length."""
    expected, _ = bench.expected(candidate, found.output)
    if expected.shape != found.observed.shape or not expected.size:
        return n // 2
    with np.errstate(invalid="ignore"):
        off = np.abs(found.observed.astype(np.float64) - expected.astype(np.float64))
    off = np.where(np.isnan(off), np.inf, off)
    where = np.unravel_index(int(off.argmax()), off.shape)
    return next((int(i) for i, size in zip(where, off.shape, strict=True) if size == n), n // 2)


def _first_shown(
    bench: Bench, windows: Iterator[slice], cut: Callable[[slice], Candidate]
) -> tuple[Candidate, Outcome] | None:
    """The first cut that still shows the fault."""
    for window in windows:
        if bench.spent:
            return None
        smaller = cut(window)
        shown = bench.shows(smaller)
        if shown is not None:
            return smaller, shown
    return None


def _crop_size(
    bench: Bench, candidate: Candidate, found: Outcome, n: int
) -> tuple[Candidate, Outcome] | None:
    """Cut every axis of size `n`, of inputs and weights alike: channels that several tensors share go together."""

    def cut(window: slice) -> Candidate:
        feeds = {name: _cut(a, n, window) for name, a in candidate.feeds.items()}
        network = _cut_model(candidate.network, n, window)
        twin = network if candidate.same_file else _cut_model(candidate.twin, n, window)
        return Candidate.of(network, twin, feeds, candidate.links)

    return _first_shown(bench, _windows(n, _worst_index(bench, candidate, found, n)), cut)


def _cut(array: np.ndarray, n: int, window: slice) -> np.ndarray:
    return np.ascontiguousarray(array[tuple(window if size == n else slice(None) for size in array.shape)])


def _cut_model(model: onnx.ModelProto, n: int, window: slice) -> onnx.ModelProto:
    weights = {name: w for name, w in weights_of(model).items() if w.dtype.kind in "fiu" and n in w.shape}
    # Short lists of int64 are axes and shapes, not data.
    changed = with_weights(
        model,
        {
            k: _cut(w, n, window)
            for k, w in weights.items()
            if w.dtype.kind == "f" or w.ndim > 1 or w.itemsize < 8
        },
    )
    for node in changed.graph.node:
        for attribute in node.attribute:
            if attribute.name == "group" and attribute.i == n:
                attribute.i = window.stop - window.start
    return changed


def _crop_axis(
    bench: Bench, candidate: Candidate, found: Outcome, name: str, axis: int
) -> tuple[Candidate, Outcome] | None:
    """Cut one axis of one input."""
    array = candidate.feeds.get(name)
    if array is None or axis >= array.ndim or array.shape[axis] < 2:
        return None
    n = array.shape[axis]

    def cut(window: slice) -> Candidate:
        part = np.take(array, range(window.start, window.stop), axis)
        return candidate.fed({**candidate.feeds, name: part})

    return _first_shown(bench, _windows(n, _worst_index(bench, candidate, found, n)), cut)


def simpler_values(bench: Bench, candidate: Candidate) -> Candidate:
    """Replace inputs by the simplest values that still show the fault: zeros, ones, integers, few digits."""
    for name in list(candidate.feeds):
        array = candidate.feeds[name]
        if array.dtype.kind != "f" or not array.size:
            continue
        for plain in _plainer(array):
            tried = candidate.fed({**candidate.feeds, name: plain})
            if bench.shows(tried):
                candidate = tried
                break
        if candidate.feeds[name].size <= _LARGE:
            candidate = _zeroed(bench, candidate, name)
    return candidate


def _plainer(array: np.ndarray) -> Iterator[np.ndarray]:
    yield np.zeros_like(array)
    yield np.ones_like(array)
    finite = np.where(np.isfinite(array), array, 0)
    for digits in (0, 1, 2):
        rounded = np.round(finite.astype(np.float64), digits).astype(array.dtype)
        if not np.array_equal(rounded, array, equal_nan=True):
            yield rounded


def _zeroed(bench: Bench, candidate: Candidate, name: str) -> Candidate:
    """Set runs of elements to zero, halving the runs."""
    trials, size = 24, candidate.feeds[name].size
    run = -(-size // 2)
    while run and trials and not bench.spent:
        for start in range(0, size, run):
            flat = np.array(candidate.feeds[name]).reshape(-1)
            if not flat[start : start + run].any() or not trials:
                continue
            flat[start : start + run] = 0
            trials -= 1
            tried = candidate.fed({**candidate.feeds, name: flat.reshape(candidate.feeds[name].shape)})
            if bench.shows(tried):
                candidate = tried
        run = run // 2 if run > 1 else 0
    return candidate
