"""Preprocessing mistakes, where both sides show the input they prepared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from twinnet.judge.preparations import preparations
from twinnet.result import Cause, Fact, fact

__all__ = ["OtherInput", "input_cause", "inputs_differ"]

_CLOSE = 2.0**-18  # of the range: prepared in float32, in another order of operations
_ENOUGH, _CLEARLY, _STEPS, _ALIKE = 0.99, 10.0, 2.01, 0.9
_RANGES = {
    (2.0, -1.0): ("[-1,1]", "[0,1]"),
    (0.5, 0.5): ("[0,1]", "[-1,1]"),
    (255.0, 0.0): ("[0,255]", "[0,1]"),
    (1 / 255, 0.0): ("[0,1]", "[0,255]"),
    (1 / 127.5, -1.0): ("[-1,1]", "[0,255]"),
    (127.5, 127.5): ("[0,255]", "[-1,1]"),
}


@dataclass(frozen=True)
class OtherInput:
    """An input that the twin prepares differently: both arrays, and the cause or the evidence."""

    name: str
    ours: np.ndarray
    theirs: np.ndarray
    cause: Cause | None
    reason: Fact | None


def inputs_differ(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether an input differs between the sides; rounding to a narrower float format does not count."""
    if ours.shape != theirs.shape:
        return True
    if ours.dtype.kind == "f" and theirs.dtype.kind == "f" and theirs.dtype.itemsize < ours.dtype.itemsize:
        ours = ours.astype(theirs.dtype)
    return not np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


def input_cause(
    name: str, ours: np.ndarray, theirs: np.ndarray, resized: Iterable[tuple[str, np.ndarray]] = ()
) -> tuple[Cause | None, Fact | None]:
    """Find how the twin's preparation of an input differs; returns the cause, or else the evidence.

    `resized` yields the names of resize filters and the source picture resized by each.

    >>> x = np.random.default_rng(0).random((1, 3, 8, 8), dtype=np.float32)
    >>> input_cause("image", x, x[:, ::-1])[0].sentence
    'the twin takes input image with its channels reversed (BGR for RGB)'
    >>> input_cause("image", x, 2 * x - 1)[0].sentence
    'the twin takes input image in [-1,1] where the network takes [0,1]'
    """
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    found = list(_explanations(a, b))
    if len(found) == 1:
        way, network, twin = found[0]
        said = fact("input.taken", input=name, way=way, network=network, twin=twin)
        return Cause("preprocessing", said, 1.0), None
    if len(found) > 1:
        return None, fact("either", first=found[0][0], second=found[1][0], evidence=None)
    if a.shape == b.shape:
        cause, reason = _resized(name, a, b, resized, 255.0 if ours.dtype == np.uint8 else 1.0)
        if cause is not None or reason is not None:
            return cause, reason
    if a.shape != b.shape:
        return None, fact("shape.differs", network=a.shape, twin=b.shape)
    off = np.abs(a - b)
    alike = a.std() > 0 and b.std() > 0 and float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) > _ALIKE
    share, most = float((off > 0).mean()), float(off.max())
    return None, fact("input.differs", share=share, most=most, alike=bool(alike))


def _resized(
    name: str, a: np.ndarray, b: np.ndarray, ways: Iterable[tuple[str, np.ndarray]], top: float
) -> tuple[Cause | None, Fact | None]:
    """Name another resize filter if it explains 99 % of the difference and no other comes near."""
    whole = float(((b - a) ** 2).sum())
    left: dict[str, float] = {}
    own = ""
    for how, made in ways:
        if made.shape != b.shape:
            continue
        made = made.astype(np.float64)
        own = own or (how if np.array_equal(made, a) else "")
        rest = np.abs(b - made)
        # Sums of whole numbers may be rounded to either side.
        if float(rest.max()) <= _STEPS * top / 255:
            left[how] = min(left.get(how, 1.0), float((rest**2).sum()) / whole)
    left.pop(own, None)
    ranked = sorted((share, how) for how, share in left.items() if share <= 1 - _ENOUGH)
    if not ranked or not own:
        return None, None
    share, how = ranked[0]
    if len(ranked) > 1 and ranked[1][0] < _CLEARLY * max(share, 1e-9):
        one, two = (fact("prepared.resized", how=way) for _, way in ranked[:2])
        return None, fact("either", first=one, second=two, evidence=None)
    return Cause("preprocessing", fact("input.resized", input=name, network=own, twin=how), 1.0 - share), None


def _explanations(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[Fact, object, object]]:
    """Yield every change that turns one input into the other, simple ones first."""
    found = False
    for twin, changed in _moved(a):
        if _same(changed, b):
            found = True
            yield fact("prepared.moved", how=twin), "as it is", twin
    if found:
        return
    for way, changed in preparations(a):
        if _same(changed, b):
            yield way, "as it is", way
            return
    yield from _affine(a, b)
    yield from _cropped(a, b)


def _moved(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for axis in dict.fromkeys((1, a.ndim - 1)):
        if a.ndim > 2 and a.shape[axis] in (3, 4):
            order = [2, 1, 0, *range(3, a.shape[axis])]
            yield "BGR", a.take(order, axis)
    if a.ndim == 4:
        yield "NHWC", a.transpose(0, 2, 3, 1)
        yield "NCHW", a.transpose(0, 3, 1, 2)
        yield "transposed", a.swapaxes(2, 3)
        yield "mirrored", a[..., ::-1]
        yield "upside down", a[:, :, ::-1]


def _affine(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[Fact, object, object]]:
    """Try a factor and an offset, for the whole input or for each channel."""
    if a.shape != b.shape or a.size < 8:
        return
    scale, offset = _fit(a, b)
    if scale is not None and _same(scale * a + offset, b):
        for (factor, shift), (theirs, ours) in _RANGES.items():
            if abs(scale - factor) < 1e-3 * factor and abs(offset - shift) < 1e-3 * max(1.0, abs(shift)):
                way = fact("prepared.range", network=ours, twin=theirs)
                yield way, "as it is", f"{factor:.6g} x + {shift:.6g}"
                return
        way = fact("prepared.scaled", factor=scale, offset=offset)
        yield way, "as it is", f"{scale:.6g} x + {offset:.6g}"
        return
    if a.ndim < 3 or not 1 < a.shape[1] <= 4:
        return
    rows = [_fit(a[:, c], b[:, c]) for c in range(a.shape[1])]
    if any(s is None for s, _ in rows):
        return
    wide = (1, -1, *(1,) * (a.ndim - 2))
    scales = np.array([s for s, _ in rows], dtype=np.float64)
    offsets = np.array([o for _, o in rows])
    if _same(scales.reshape(wide) * a + offsets.reshape(wide), b):
        shown = ", ".join(f"{s:.4g} x + {o:.4g}" for s, o in zip(scales, offsets, strict=True))
        way = fact("prepared.by_channel", factors=scales, offsets=offsets)
        yield way, "as it is", shown


def _fit(a: np.ndarray, b: np.ndarray) -> tuple[float | None, float]:
    spread = float(a.std())
    if spread == 0:
        return None, 0.0
    scale = float(((a - a.mean()) * (b - b.mean())).mean()) / spread**2
    return scale, float(b.mean() - scale * a.mean())


def _cropped(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[Fact, object, object]]:
    """Try the same picture moved by a few pixels: another crop."""
    if a.ndim != 4 or a.shape != b.shape or min(a.shape[2:]) < 8:
        return
    reach = min(8, min(a.shape[2:]) // 4)
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if (dy, dx) == (0, 0):
                continue
            ours = a[:, :, max(dy, 0) : a.shape[2] + min(dy, 0), max(dx, 0) : a.shape[3] + min(dx, 0)]
            theirs = b[:, :, max(-dy, 0) : b.shape[2] + min(-dy, 0), max(-dx, 0) : b.shape[3] + min(-dx, 0)]
            if ours.std() > 0 and _same(ours, theirs):
                yield fact("prepared.cropped", lower=dy, further=dx), "its own crop", (dy, dx)
                return


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    scale = max(float(np.abs(b).max(initial=0.0)), 1e-30)
    return bool((np.abs(a - b) <= _CLOSE * scale).all())
