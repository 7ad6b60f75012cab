"""Charts as figures for SVG, computed here, so that pages show them without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from twinnet.dashboard import words
from twinnet.dashboard.queries.runs import LayerRow
from twinnet.dashboard.queries.sessions import SessionRow
from twinnet.dashboard.queries.trends import Band, Point
from twinnet.report.chart import Scale, Tick, scale_of
from twinnet.report.figures import clean

if TYPE_CHECKING:
    from twinnet.report.profiles.flame import Flame

__all__ = ["Along", "Bar", "History", "Trend", "along", "flame", "history", "trend"]

WIDTH, LEFT, RIGHT = 1000.0, 54.0, 14.0
Words = Callable[[float | None], str]
"""A value in words."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One session in the history: heights of what passed, is known, is bad."""

    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    session: SessionRow
    current: bool


@dataclass(frozen=True, slots=True)
class History:
    """Bars of sessions, the oldest first."""

    bars: tuple[Bar, ...]
    width: float = WIDTH
    height: float = 74.0


def history(found: Sequence[SessionRow], current: int | None = None) -> History:
    """Sessions as bars; the share of what is bad is never less than can be seen."""
    height, gap = 70.0, 3.0
    slots = max(len(found), 24)
    step = WIDTH / slots
    bars = []
    for i, one in enumerate(found):
        whole = max(one.total - one.skipped, 1)
        bad = max(height * one.bad / whole, 9.0) if one.bad else 0.0
        known = height * max(one.failed + one.errors - one.bad, 0) / whole
        good = max(height - bad - known, 0.0) if one.total else 3.0
        parts = [("bad" if one.failed else "err", height - bad, bad)] if bad else []
        parts += [("known", height - bad - known, known)] if known > 0.5 else []
        parts += [("good" if one.total else "none", 0.0 if one.total else height - 3, good)]
        x = WIDTH - (len(found) - i) * step
        bars.append(Bar(round(x, 1), round(step - gap, 1), tuple(parts), one, one.id == current))
    return History(tuple(bars))


@dataclass(frozen=True, slots=True)
class Dot:
    """A layer in the chart."""

    x: float
    y: float
    status: str
    title: str
    href: str
    stem: float | None = None


@dataclass(frozen=True, slots=True)
class TimeBar:
    """The time of a layer; `run` is "one" or "two"."""

    x: float
    y: float
    width: float
    height: float
    run: str
    title: str


@dataclass(frozen=True, slots=True)
class Along:
    """Layers along the network: error over floor of one or two runs, and the time of each layer below."""

    number: int
    first: tuple[Dot, ...]
    second: tuple[Dot, ...]
    limit: float | None
    ticks: tuple[Tick, ...]
    labels: tuple[tuple[float, float, str, str], ...]
    radius: float
    bars: tuple[TimeBar, ...]
    time_ticks: tuple[tuple[float, str], ...]
    height: float
    left: float = LEFT
    right: float = WIDTH - RIGHT
    width: float = WIDTH
    floor: float = 190.0


def along(first: Sequence[LayerRow], second: Sequence[LayerRow], link: str) -> Along | None:
    """The chart of one run, or of two beside each other; `link` is an address to which a layer's number is added."""
    if not first and not second:
        return None
    names = list(dict.fromkeys(row.tensor for row in (*first, *second)))
    where = {name: i for i, name in enumerate(names)}
    step = (WIDTH - LEFT - RIGHT) / len(names)
    allowed = [row.allowed for row in (*first, *second) if row.allowed]
    scale = scale_of([_finite(r.ratio) for r in (*first, *second)], allowed[:1], 18.0, 190.0)
    timed = any(row.time for row in (*first, *second))

    def dots(rows: Sequence[LayerRow]) -> tuple[Dot, ...]:
        return tuple(
            Dot(
                round(LEFT + (where[row.tensor] + 0.5) * step, 2),
                scale(row.ratio),
                row.status.replace(" ", "-") or "none",
                f"{row.label}: {words.ratio(row.ratio)}{', ' + words.seconds(row.time) if row.time else ''}",
                f"{link}{row.place_id}",
                scale(row.allowed) if row.status == "fail" else None,
            )
            for row in rows
            if row.ratio is not None
        )

    bars, time_ticks, height = _time_bars(first, second, where, step) if timed else ((), (), 214.0)
    shown = dots(first)
    return Along(
        len(names),
        shown,
        dots(second),
        scale(allowed[0]) if allowed else None,
        scale.ticks(6) if shown or second else (),
        _labels(first, where, step, scale),
        round(min(4.0, max(1.8, step * 0.35)), 2),
        bars,
        time_ticks,
        height,
    )


def _labels(
    rows: Sequence[LayerRow], where: Mapping[str, int], step: float, scale: Scale
) -> tuple[tuple[float, float, str, str], ...]:
    worst = sorted((r for r in rows if r.status == "fail"), key=lambda r: -(r.ratio or 0))[:2]
    found = []
    for row in worst:
        x = LEFT + (where[row.tensor] + 0.5) * step
        right = x > WIDTH * 0.6
        text = row.label if len(row.label) <= 44 else f"{row.label[:20]}...{row.label[-21:]}"
        found.append(
            (x + (-9 if right else 9), scale(row.ratio) + 4, "end" if right else "start", clean(text))
        )
    return tuple(found)


def _time_bars(
    first: Sequence[LayerRow], second: Sequence[LayerRow], where: Mapping[str, int], step: float
) -> tuple[tuple[TimeBar, ...], tuple[tuple[float, str], ...], float]:
    """The bars, the ticks of their axis, and the height of the chart with them."""
    top, bottom = 226.0, 300.0
    most = max(row.time or 0.0 for row in (*first, *second)) or 1.0
    wide = max(step * (0.42 if second else 0.8), 1.0)
    bars = []
    for run, rows in (("one", first), ("two", second)):
        for row in rows:
            if row.time:
                x = LEFT + where[row.tensor] * step + step * 0.08 + (wide if run == "two" else 0.0)
                tall = (bottom - top) * row.time / most
                title = f"{row.label}: {words.seconds(row.time)}"
                x, y = round(x, 2), round(bottom - tall, 2)
                bars.append(TimeBar(x, y, round(wide, 2), round(tall, 2), run, title))
    ticks = ((top, words.seconds(most)), ((top + bottom) / 2, words.seconds(most / 2)), (bottom, "0"))
    return tuple(bars), ticks, bottom + 20


@dataclass(frozen=True, slots=True)
class Trend:
    """Values over sessions, their band, and marks where they left it."""

    dots: tuple[tuple[float, float, str, str, str], ...]
    line: str
    bands: tuple[str, ...]
    marks: tuple[tuple[float, float, str, str], ...]
    ticks: tuple[Tick, ...]
    dates: tuple[tuple[float, str], ...]
    height: float = 224.0
    left: float = LEFT
    right: float = WIDTH - RIGHT
    width: float = WIDTH
    base: float = 196.0


def trend(
    points: Sequence[Point], values: Sequence[float | None], band: Band, spoken: Words, what: str
) -> Trend | None:
    """The chart of values over sessions; `spoken` gives a value in words, `what` is "ratio" or "time"."""
    known = [v for v in values if v is not None]
    if not known:
        return None
    scale: Any = (
        scale_of([_finite(v) for v in values], [], 22.0, 196.0)
        if what == "ratio"
        else _Linear(max((*known, *(h for h in band.high if h is not None))), 22.0, 196.0)
    )
    step = (WIDTH - LEFT - RIGHT) / max(len(points), 12)
    start = WIDTH - RIGHT - len(points) * step
    xs = [round(start + (i + 0.5) * step, 2) for i in range(len(points))]
    dots, line = [], ""
    for x, point, value in zip(xs, points, values, strict=True):
        if value is not None:
            y = scale(value)
            line += f"{'L' if line else 'M'}{x:g} {y:g}"
            title = f"session {point.session_id}: {spoken(value)}, {point.verdict}"
            dots.append((x, y, point.verdict, title, f"/cases/{point.run_id}"))
    marks = [
        (xs[i], scale(values[i]), "worse" if i in band.marks else "better", spoken(values[i]))
        for i in (*band.marks, *band.better)
    ]
    every = max(1, math.ceil(len(points) / 8))
    dates = [
        (xs[i], f"{datetime.fromtimestamp(points[i].started, UTC):%d %b}")
        for i in range(0, len(points), every)
    ]
    ticks = scale.ticks(5) if what == "ratio" else scale.ticks(spoken)
    return Trend(tuple(dots), line, _areas(xs, band, scale), tuple(marks), ticks, tuple(dates))


@dataclass(frozen=True, slots=True)
class _Linear:
    """A linear axis from zero."""

    most: float
    top: float
    bottom: float

    def __call__(self, value: float | None) -> float:
        share = min(max((value or 0.0) / (self.most * 1.05 or 1.0), 0.0), 1.0)
        return round(self.bottom - share * (self.bottom - self.top), 2)

    def ticks(self, spoken: Words) -> tuple[Tick, ...]:
        found = [Tick(self(self.most * share), spoken(self.most * share)) for share in (0.5, 1.0)]
        return (Tick(self.bottom, "0"), *found)


def _areas(xs: Sequence[float], band: Band, scale: Any) -> tuple[str, ...]:
    """The band as areas, one for each stretch where it is known."""
    areas, there = [], []
    for i in range(len(xs) + 1):
        if i < len(xs) and band.low[i] is not None:
            there.append(i)
            continue
        if len(there) > 1:
            upper = "L".join(f"{xs[j]:g} {scale(band.high[j]):g}" for j in there)
            lower = "L".join(f"{xs[j]:g} {scale(band.low[j]):g}" for j in reversed(there))
            areas.append(f"M{upper}L{lower}Z")
        there = []
    return tuple(areas)


def flame(name: str, rows: Sequence[Mapping[str, Any]]) -> Flame | None:
    """The flame graph of a profile, as its own page has it; None where nothing took time."""
    from twinnet.profile.model import Row
    from twinnet.report.profiles.flame import flame_of_rows

    made = [
        Row(
            row["name"],
            row["op"],
            row["kernel"],
            tuple(row["network_ops"]),
            tuple(row["sites"]),
            row["module"],
            p50=max(row["p50"] or 0.0, 0.0),
        )
        for row in rows
    ]
    found = flame_of_rows(name, made)
    return found if found.boxes else None


def _finite(value: float | None) -> float | None:
    return None if value is None or abs(value) >= 1e299 else value
