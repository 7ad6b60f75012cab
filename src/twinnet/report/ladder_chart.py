"""The chart along a ladder: the error of each prefix in units of its noise floor, and the time it took."""

from __future__ import annotations

from dataclasses import dataclass

from twinnet.report import figures
from twinnet.report.chart import LEFT, RIGHT, WIDTH, Tick, scale_of
from twinnet.result import Climb

__all__ = ["LadderChart", "chart_of_rungs"]

_TOP, _BOTTOM = (18.0, 138.0), (172.0, 232.0)
HEIGHT = 270


@dataclass(frozen=True, slots=True)
class LadderChart:
    """SVG figures: dots by verdict, bars of time, grid lines and names."""

    dots: dict[str, str]
    bars: tuple[tuple[float, float, float, float], ...]
    ticks: tuple[Tick, ...]
    names: tuple[tuple[float, str], ...]
    longest: str
    left: int = LEFT
    right: int = WIDTH - RIGHT
    width: int = WIDTH
    height: int = HEIGHT
    middle: float = _BOTTOM[0]
    base: float = _BOTTOM[1]


def chart_of_rungs(climb: Climb) -> LadderChart | None:
    """The chart of the prefixes that were checked, each at its place along the network; None if there are too few."""
    at = {name: i for i, name in enumerate(climb.order)}
    shown = [(at[r.name], r) for r in climb.rungs if r.cut == "prefix" and r.name in at]
    if len(shown) < 2:
        return None
    scale = scale_of([r.ratio for _, r in shown], [1.0], *_TOP)
    step = (WIDTH - LEFT - RIGHT) / len(climb.order)
    longest = max(r.seconds for _, r in shown) or 1.0
    dots: dict[str, list[str]] = {}
    bars, names = [], []
    for place, rung in sorted(shown, key=lambda pair: pair[0]):
        x = round(LEFT + (place + 0.5) * step, 2)
        y = _TOP[0] if rung.verdict == "ERROR" else scale(rung.ratio)
        dots.setdefault("pass" if rung.verdict == "PASS" else "fail", []).append(f"M{x:g} {y:g}h0")
        height = round((_BOTTOM[1] - _BOTTOM[0]) * rung.seconds / longest, 2)
        bars.append((round(x - step * 0.3, 2), _BOTTOM[1] - height, round(step * 0.6, 2), height))
        names.append((x, _short(figures.clean(rung.name))))
    return LadderChart(
        {status: "".join(path) for status, path in dots.items()},
        tuple(bars),
        scale.ticks(5),
        tuple(names),
        f"{longest:.1f} s",
    )


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"...{name[-11:]}"
