"""Mistakes before the first layer, where both sides show the input as they prepared it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from twinnet.judge.preparations import preparations
from twinnet.result import Cause

__all__ = ["OtherInput", "input_cause", "inputs_differ"]

_CLOSE = 2.0**-18  # of the range: prepared in float32, in another order of operations
_ENOUGH, _CLEARLY, _STEPS = 0.99, 10.0, 2.01
_RANGES = {
    (2.0, -1.0): "[-1,1] where the network takes [0,1]",
    (0.5, 0.5): "[0,1] where the network takes [-1,1]",
    (255.0, 0.0): "[0,255] where the network takes [0,1]",
    (1 / 255, 0.0): "[0,1] where the network takes [0,255]",
    (1 / 127.5, -1.0): "[-1,1] where the network takes [0,255]",
    (127.5, 127.5): "[0,255] where the network takes [-1,1]",
}


@dataclass(frozen=True)
class OtherInput:
    """An input that the twin prepares otherwise: both arrays, and the cause or the evidence."""

    name: str
    ours: np.ndarray
    theirs: np.ndarray
    cause: Cause | None
    reason: str


def inputs_differ(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether an input is not the same on both sides; rounding to a narrower float format is no difference."""
    if ours.shape != theirs.shape:
        return True
    if ours.dtype.kind == "f" and theirs.dtype.kind == "f" and theirs.dtype.itemsize < ours.dtype.itemsize:
        ours = ours.astype(theirs.dtype)
    return not np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


def input_cause(
    name: str, ours: np.ndarray, theirs: np.ndarray, resized: Iterable[tuple[str, np.ndarray]] = ()
) -> tuple[Cause | None, str]:
    """What was done otherwise to an input, or the evidence in words.

    `resized` are ways to resize the picture it comes from, and what they give.

    >>> x = np.random.default_rng(0).random((1, 3, 8, 8), dtype=np.float32)
    >>> input_cause("image", x, x[:, ::-1])[0].sentence
    'the twin takes input image with its channels reversed (BGR for RGB)'
    >>> input_cause("image", x, 2 * x - 1)[0].sentence
    'the twin takes input image in [-1,1] where the network takes [0,1]'
    """
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    found = list(_explanations(a, b))
    if len(found) == 1:
        words, network, twin = found[0]
        sentence = f"the twin takes input {name} {words}"
        return Cause("preprocessing", sentence, 1.0, network, twin), ""
    if len(found) > 1:
        return None, f"either {found[0][0]}, or {found[1][0]}: this data cannot tell"
    if a.shape == b.shape:
        cause, reason = _resized(name, a, b, resized, 255.0 if ours.dtype == np.uint8 else 1.0)
        if cause is not None or reason:
            return cause, reason
    if a.shape != b.shape:
        return None, f"shape {_dims(b.shape)} where the network has {_dims(a.shape)}"
    off = np.abs(a - b)
    share = float((off > 0).mean())
    percent = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.2g}"
    reason = f"{percent} % of its elements differ, by {off.max():.2g} at most"
    if a.std() > 0 and b.std() > 0:
        alike = float(np.corrcoef(a.ravel(), b.ravel())[0, 1])
        if alike > 0.9:
            reason += ": much the same picture, resized, cropped or decoded otherwise"
    return None, reason


def _resized(
    name: str, a: np.ndarray, b: np.ndarray, ways: Iterable[tuple[str, np.ndarray]], top: float
) -> tuple[Cause | None, str]:
    """Another filter, if the picture resized by it explains 99 % of the difference and no other way comes near."""
    whole = float(((b - a) ** 2).sum())
    left: dict[str, float] = {}
    own = ""
    for words, made in ways:
        if made.shape != b.shape:
            continue
        made = made.astype(np.float64)
        own = own or (words if np.array_equal(made, a) else "")
        rest = np.abs(b - made)
        # Sums of whole numbers may be rounded to either side.
        if float(rest.max()) <= _STEPS * top / 255:
            left[words] = min(left.get(words, 1.0), float((rest**2).sum()) / whole)
    left.pop(own, None)
    ranked = sorted((share, words) for words, share in left.items() if share <= 1 - _ENOUGH)
    if not ranked or not own:
        return None, ""
    share, words = ranked[0]
    if len(ranked) > 1 and ranked[1][0] < _CLEARLY * max(share, 1e-9):
        return None, f"either resized {words}, or {ranked[1][1]}: this data cannot tell"
    sentence = f"the twin takes input {name} resized {words} where the network takes it resized {own}"
    return Cause("preprocessing", sentence, 1.0 - share, own, words), ""


def _explanations(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, object, object]]:
    """Every single change that turns one input into the other, the simple ones before combinations."""
    found = False
    for words, twin, changed in _moved(a):
        if _same(changed, b):
            found = True
            yield words, "as it is", twin
    if found:
        return
    for words, changed in preparations(a):
        if _same(changed, b):
            yield words, "as it is", words
            return
    yield from _affine(a, b)
    yield from _cropped(a, b)


def _moved(a: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    for axis in dict.fromkeys((1, a.ndim - 1)):
        if a.ndim > 2 and a.shape[axis] in (3, 4):
            order = [2, 1, 0, *range(3, a.shape[axis])]
            yield "with its channels reversed (BGR for RGB)", "BGR", a.take(order, axis)
    if a.ndim == 4:
        yield "as NHWC where the network takes NCHW", "NHWC", a.transpose(0, 2, 3, 1)
        yield "as NCHW where the network takes NHWC", "NCHW", a.transpose(0, 3, 1, 2)
        yield "with height and width exchanged", "transposed", a.swapaxes(2, 3)
        yield "mirrored left to right", "mirrored", a[..., ::-1]
        yield "upside down", "upside down", a[:, :, ::-1]


def _affine(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, object, object]]:
    """A factor and an offset for the whole input, or for each channel."""
    if a.shape != b.shape or a.size < 8:
        return
    scale, offset = _fit(a, b)
    if scale is not None and _same(scale * a + offset, b):
        for (factor, shift), words in _RANGES.items():
            if abs(scale - factor) < 1e-3 * factor and abs(offset - shift) < 1e-3 * max(1.0, abs(shift)):
                yield f"in {words}", "as it is", f"{factor:.6g} x + {shift:.6g}"
                return
        yield (
            f"scaled by {scale:.5g} and shifted by {offset:.5g}",
            "as it is",
            f"{scale:.6g} x + {offset:.6g}",
        )
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
        yield f"with another mean or standard deviation for each channel ({shown})", "as it is", shown


def _fit(a: np.ndarray, b: np.ndarray) -> tuple[float | None, float]:
    spread = float(a.std())
    if spread == 0:
        return None, 0.0
    scale = float(((a - a.mean()) * (b - b.mean())).mean()) / spread**2
    return scale, float(b.mean() - scale * a.mean())


def _cropped(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, object, object]]:
    """The same picture moved by a few pixels: another crop."""
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
                yield f"cropped {dy} rows lower and {dx} columns further right", "its own crop", (dy, dx)
                return


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    scale = max(float(np.abs(b).max(initial=0.0)), 1e-30)
    return bool((np.abs(a - b) <= _CLOSE * scale).all())


def _dims(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
