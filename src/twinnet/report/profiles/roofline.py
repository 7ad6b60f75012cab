"""The roofline of a profile: what each step computes per second against what it computes per byte."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinnet.profile.model import Profile
from twinnet.report.figures import clean, figure, percent
from twinnet.report.profiles import words

__all__ = ["Dot", "Roofline", "roofline_of"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 76.0, 1160.0, 16.0, 330.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A step: where, how large, what pointing at it says, what limits it."""

    x: float
    y: float
    size: float
    title: str
    limit: str
    row: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """SVG figures: dots, the roof, and the grid with its words."""

    dots: tuple[Dot, ...]
    roof: str
    ridge: float
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    peak: str
    bandwidth: str
    left: float = _LEFT
    right: float = _RIGHT
    top: float = _TOP
    bottom: float = _BOTTOM


def roofline_of(profile: Profile) -> Roofline | None:
    """The roofline; None if no step has known operations and bytes, or the machine is not known."""
    shown = [
        (number, row, row.intensity, row.flops / row.p50)
        for number, row in enumerate(profile.rows)
        if row.intensity and row.flops and row.p50 > 0
    ]
    target = profile.target
    if not shown or target is None:
        return None
    xs = [i for _, _, i, _ in shown] + [target.ridge]
    ys = [r for _, _, _, r in shown] + [target.peak]
    low, high = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)) + 0.01)
    floor, top = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)) + 0.01)

    def x(value: float) -> float:
        return round(_LEFT + (math.log10(value) - low) / (high - low) * (_RIGHT - _LEFT), 1)

    def y(value: float) -> float:
        share = (math.log10(value) - floor) / (top - floor)
        return round(_BOTTOM - min(max(share, 0.0), 1.0) * (_BOTTOM - _TOP), 1)

    begin = max(10.0**low, 10.0**floor / target.bandwidth)
    roof = f"M{x(begin)} {y(begin * target.bandwidth)}L{x(target.ridge)} {y(target.peak)}L{_RIGHT} {y(target.peak)}"
    dots = tuple(
        Dot(
            x(intensity),
            y(rate),
            round(3 + 13 * math.sqrt(row.share), 1),
            f"{clean(row.label)}: {words.rate(row)}, {figure(intensity)} FLOP per byte, "
            f"{percent(row.share, 1)} of the time; {words.limited(row)}",
            row.limit,
            number,
        )
        for number, row, intensity, rate in sorted(shown, key=lambda one: -one[1].share)
    )
    across = tuple((x(10.0**e), f"{10.0**e:g}") for e in range(low, high + 1))
    up = tuple((y(10.0**e), words.much(10.0**e, "").strip()) for e in range(floor, top + 1))
    peak, width = words.much(target.peak, "FLOP/s"), words.much(target.bandwidth, "B/s")
    return Roofline(dots, roof, x(target.ridge), across, up, peak, width)
