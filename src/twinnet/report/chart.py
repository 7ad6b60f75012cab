"""The chart along the network: what each site creates in units of its noise floor, and what it ends up with.

Everything is computed here as SVG figures, so that the page shows it without a script; the script only adds
what hovering and clicking do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twinnet.report import figures
from twinnet.result import PairResult

__all__ = [
    "LEFT",
    "NARROW",
    "RIGHT",
    "WIDTH",
    "Chart",
    "Scale",
    "Tick",
    "chart_of",
    "round_steps",
    "scale_of",
]

WIDTH, LEFT, RIGHT = 1000, 54, 14
NARROW = 400
_TOP, _MIDDLE = (16.0, 176.0), (206.0, 286.0)
HEIGHT = 306


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the grid: where, and what it says."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """SVG paths by status, the limit, the end-to-end curve, the grids, and labels for the worst sites."""

    number: int
    dots: dict[str, str]
    stems: str
    limit: str
    curve: str
    ticks: tuple[Tick, ...]
    lower_ticks: tuple[Tick, ...]
    labels: tuple[tuple[float, float, str, str], ...]
    dot: float
    left: int = LEFT
    right: int = WIDTH - RIGHT
    width: int = WIDTH
    height: int = HEIGHT
    floor: float = _TOP[1]
    base: float = _MIDDLE[1]


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis between two exponents, drawn from `top` down to `bottom`."""

    low: int
    high: int
    top: float
    bottom: float

    def __call__(self, value: float | None) -> float:
        if value is None or value <= 0:
            return self.bottom
        if math.isnan(value) or math.isinf(value):
            return self.top
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.bottom - min(max(share, 0.0), 1.0) * (self.bottom - self.top), 2)

    def ticks(self, most: int) -> tuple[Tick, ...]:
        """At most about `most` lines of the grid, one for each power of ten."""
        step = max(1, math.ceil((self.high - self.low) / most))
        return tuple(Tick(self(10.0**e), _power(e)) for e in range(self.low, self.high + 1, step))


def chart_of(pairs: Sequence[PairResult], width: int = WIDTH) -> Chart | None:
    """The chart of all pairs in their order; None where nothing has a figure.

    Letters keep their size, so that a narrow page needs a chart of its own (`NARROW`).
    """
    if not pairs:
        return None
    right = width - RIGHT
    ratios = scale_of([p.ratio for p in pairs], [p.limit for p in pairs], *_TOP)
    sizes = scale_of([p.difference.relative for p in pairs], [], *_MIDDLE)
    step = (right - LEFT) / len(pairs)
    xs = [round(LEFT + (i + 0.5) * step, 2) for i in range(len(pairs))]
    dots: dict[str, list[str]] = {}
    stems = []
    for x, pair in zip(xs, pairs):
        y = ratios(pair.ratio)
        dots.setdefault(pair.status, []).append(f"M{x:g} {y:g}h0")
        if pair.status == "fail":
            stems.append(f"M{x:g} {ratios(pair.limit):g}V{y:g}")
    return Chart(
        len(pairs),
        {status: "".join(path) for status, path in dots.items()},
        "".join(stems),
        _stairs(pairs, ratios, step, right),
        _area(xs, [sizes(p.difference.relative) for p in pairs]),
        ratios.ticks(6),
        sizes.ticks(3),
        _labels(pairs, xs, ratios, width),
        round(min(6.0, max(2.5, step * 0.7)), 2),
        right=right,
        width=width,
    )


def scale_of(values: Sequence[float | None], limits: Sequence[float], top: float, bottom: float) -> Scale:
    """A scale that holds all known values, from `top` down to `bottom`."""
    known = [v for v in (*values, *limits) if v is not None and math.isfinite(v) and v > 0]
    if not known:
        return Scale(-1, 1, top, bottom)
    high = math.floor(math.log10(max(known))) + 1
    low = math.floor(math.log10(min(known)))
    return Scale(max(low, high - 9), high, top, bottom)


def round_steps(most: float, count: int = 4) -> tuple[float, ...]:
    """Round values from zero up to `most`, one to `count` of them after zero, for the lines of a linear axis.

    >>> round_steps(5.18), round_steps(0.495, 2)
    ((0.0, 2.0, 4.0), (0.0, 0.2, 0.4))
    """
    if not (math.isfinite(most) and most > 0):
        return (0.0,)
    unit = 10.0 ** math.floor(math.log10(most / (count + 1)))
    step = next((unit * k for k in (1, 2, 5) if most / (unit * k) < count + 1), unit * 10)
    return tuple(float(f"{step * i:.6g}") for i in range(int(most * 1.001 / step) + 1))


def _stairs(pairs: Sequence[PairResult], scale: Scale, step: float, right: int) -> str:
    """The limit, which may differ from site to site, as a stepped line."""
    path = ""
    last = None
    for i, pair in enumerate(pairs):
        y = scale(pair.limit)
        if y != last:
            path += f"M{LEFT:g} {y:g}" if last is None else f"H{LEFT + i * step:.2f}V{y:g}"
            last = y
    return f"{path}H{right}"


def _area(xs: Sequence[float], ys: Sequence[float]) -> str:
    points = "L".join(f"{x:g} {y:g}" for x, y in zip(xs, ys))
    return f"M{xs[0]:g} {_MIDDLE[1]:g}L{points}L{xs[-1]:g} {_MIDDLE[1]:g}Z"


def _labels(
    pairs: Sequence[PairResult], xs: Sequence[float], scale: Scale, width: int
) -> tuple[tuple[float, float, str, str], ...]:
    """Names beside the two worst failing sites, on the side that has room."""
    failing = [i for i, pair in enumerate(pairs) if pair.status == "fail" and pair.ratio is not None]
    failing.sort(key=lambda i: -(pairs[i].ratio or 0))
    labels = []
    most = 44 if width >= WIDTH else 26
    for i in failing[: 2 if width >= WIDTH else 1]:
        text = figures.clean(pairs[i].site.label)
        text = text if len(text) <= most else f"{text[: most // 2 - 2]}...{text[-(most // 2 - 1) :]}"
        right = xs[i] > width * 0.6
        labels.append(
            (xs[i] + (-9 if right else 9), scale(pairs[i].ratio) + 4, "end" if right else "start", text)
        )
    return tuple(labels)


def _power(exponent: int) -> str:
    return {0: "1", 1: "10", 2: "100", -1: "0.1", 3: f"1{figures.NBSP}000"}.get(exponent, f"1e{exponent}")
