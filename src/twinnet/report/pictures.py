"""Pictures of a tensor difference for the HTML report: small PNGs as data URIs, a histogram as figures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinnet.report import figures
from twinnet.report.slices import Compared, reduce_mean, reduce_peak
from twinnet.result import Result
from twinnet.signature import dims

__all__ = [
    "DECADES",
    "DIFFERENCE",
    "ODD",
    "VALUES",
    "Bar",
    "Picture",
    "heat_maps",
    "picture_of",
    "worst_tensors",
]

_MOST_PICTURES = 8
_MOST_PIXELS = 256
DECADES = 4
# Anchors of the two colour scales, dark to bright and blue over grey to red; magenta marks NaN and Inf.
VALUES = ((14, 16, 48), (38, 60, 128), (32, 122, 140), (72, 176, 118), (186, 214, 88), (252, 240, 170))
DIFFERENCE = ((22, 58, 160), (92, 142, 220), (236, 236, 236), (226, 120, 92), (160, 22, 30))
ODD = (255, 0, 220)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the histogram, in per cent of the drawing."""

    left: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What the report shows of one tensor."""

    name: str
    anchor: str
    shape: str
    place: str
    reference: str = ""
    twin: str = ""
    difference: str = ""
    low: str = ""
    high: str = ""
    top: str = ""
    aspect: float = 1.0
    bars: tuple[Bar, ...] = ()
    axis: tuple[str, ...] = ()
    figures: tuple[tuple[str, str], ...] = ()
    note: str = ""


def worst_tensors(result: Result, tensors: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """Names of the tensors worth a picture: those of the findings, then the largest ratios."""
    names = [f.site.tensor for f in result.findings]
    ranked = sorted(
        (*result.outputs, *result.pairs),
        key=lambda p: (
            p.status != "fail",
            -(p.ratio if p.ratio is not None and not math.isnan(p.ratio) else -1),
        ),
    )
    names += [pair.site.tensor for pair in ranked]
    names += list(tensors)
    return [name for name in dict.fromkeys(names) if name in tensors][:_MOST_PICTURES]


def picture_of(name: str, reference: np.ndarray, twin: np.ndarray, anchor: str) -> Picture:
    """Draw one tensor: the worst plane of both sides on one colour scale, the difference, a histogram."""
    shape = dims(reference.shape)
    shown = figures.clean(name)
    if reference.shape != twin.shape:
        other = dims(twin.shape)
        return Picture(shown, anchor, shape, "", note=f"the shapes differ: network {shape}, twin {other}")
    compared = Compared.of(reference, twin)
    if not compared.size.size:
        return Picture(shown, anchor, shape, "", note="the tensor is empty")
    plane = compared.plane()
    low, high = _shared_range(plane.reference, plane.twin)
    height, width = plane.reference.shape
    return Picture(
        shown,
        anchor,
        f"{compared.dtype} {shape}",
        plane.place,
        _png(_scaled(reduce_mean(plane.reference, _MOST_PIXELS, _MOST_PIXELS), low, high), VALUES),
        _png(_scaled(reduce_mean(plane.twin, _MOST_PIXELS, _MOST_PIXELS), low, high), VALUES),
        _png(
            _signed(reduce_peak(plane.difference, _MOST_PIXELS, _MOST_PIXELS), compared.largest), DIFFERENCE
        ),
        figures.figure(low),
        figures.figure(high),
        figures.figure(compared.largest),
        min(max(width / max(height, 1), 0.25), 12.0),
        *_histogram(compared),
        _figures(compared),
    )


def _shared_range(reference: np.ndarray, twin: np.ndarray) -> tuple[float, float]:
    both = np.concatenate([np.asarray(reference, np.float64).ravel(), np.asarray(twin, np.float64).ravel()])
    both = both[np.isfinite(both)]
    return (float(both.min()), float(both.max())) if both.size else (0.0, 0.0)


def _scaled(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """0..1 within the range; what is not finite becomes NaN."""
    values = np.where(np.isfinite(values), values, np.nan)
    span = high - low
    return (
        (values - low) / span if span > 0 and math.isfinite(span) else np.where(np.isnan(values), np.nan, 0.5)
    )


def _signed(difference: np.ndarray, top: float) -> np.ndarray:
    """0..1 with equality at 0.5; logarithmic over four decades, so that one large element hides nothing."""
    if not top:
        return np.where(np.isnan(difference), np.nan, 0.5)
    with np.errstate(divide="ignore"):
        size = 1 + np.log10(np.abs(difference) / top) / DECADES
    return 0.5 + 0.5 * np.sign(difference) * np.clip(size, 0, 1)


def _png(share: np.ndarray, anchors: tuple[tuple[int, int, int], ...]) -> str:
    from PIL import Image

    image = Image.fromarray(_indices(share))
    image.putpalette(_palette(anchors).tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _palette(anchors: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    steps = np.linspace(0, 1, len(anchors))
    colours = np.stack(
        [np.interp(np.arange(255) / 254, steps, [a[c] for a in anchors]).round() for c in range(3)], axis=1
    )
    return np.vstack([colours, ODD]).astype(np.uint8)


def _indices(share: np.ndarray) -> np.ndarray:
    odd = np.isnan(share)
    return np.where(odd, 255, np.where(odd, 0, share).clip(0, 1) * 254).round().astype(np.uint8)


def heat_maps(reference: np.ndarray, twin: np.ndarray) -> tuple[np.ndarray, ...]:
    """The worst plane of network, twin and difference as RGB images, in the colours of the report.

    >>> [image.shape for image in heat_maps(np.zeros((2, 3)), np.ones((2, 3)))]
    [(2, 3, 3), (2, 3, 3), (2, 3, 3)]
    """
    compared = Compared.of(reference, twin)
    plane = compared.plane()
    low, high = _shared_range(plane.reference, plane.twin)
    values = (_scaled(reduce_mean(part, 512, 512), low, high) for part in (plane.reference, plane.twin))
    difference = _signed(reduce_peak(plane.difference, 512, 512), compared.largest)
    return (
        *(_palette(VALUES)[_indices(share)] for share in values),
        _palette(DIFFERENCE)[_indices(difference)],
    )


def _histogram(compared: Compared) -> tuple[tuple[Bar, ...], tuple[str, ...]]:
    found = compared.histogram(per_decade=4, most=40)
    if not found.counts:
        return (), ()
    # Counts are drawn on a logarithmic height: the few elements that are wrong are the ones looked for.
    top = math.log10(max(found.counts)) + 0.3
    width = 100 / len(found.counts)
    bars = tuple(
        Bar(
            round(i * width, 3),
            round(width * 0.86, 3),
            round(100 * (math.log10(number) + 0.3) / top, 2),
            f"{figures.count(number, 'element')} differ by {_size(low)} to {_size(high)}",
        )
        for i, (number, low, high) in enumerate(zip(found.counts, found.edges, found.edges[1:]))
        if number
    )
    first, last = found.edges[0], found.edges[-1]
    middle = round((first + last) / 2)
    return bars, tuple(f"1e{int(e)}" for e in (first, middle, last))


def _size(exponent: float) -> str:
    return figures.figure(10.0 ** min(exponent, 308.0))


def _figures(compared: Compared) -> tuple[tuple[str, str], ...]:
    total = compared.size.size
    index = ", ".join(str(i) for i in compared.index)
    rows = [
        ("differing", f"{figures.grouped(compared.differing)} of {figures.grouped(total)}"),
        ("largest", figures.figure(compared.largest)),
        ("mean", figures.figure(compared.mean)),
        ("worst at", f"[{index}]"),
    ]
    if compared.odd:
        rows.append(("NaN or Inf on one side", figures.grouped(compared.odd)))
    if len(compared.channels) > 1:
        worst = int(np.argmax(compared.channels))
        rows.append(("worst channel", f"{worst} of {len(compared.channels)}"))
    return tuple(rows)
