"""Charts as figures for SVG, computed here, so that pages show them without a script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from twinnet.dashboard.queries.runs import LayerRow
from twinnet.dashboard.queries.sessions import SessionRow
from twinnet.dashboard.queries.trends import Band, Point
from twinnet.dashboard.words import ratio, seconds
from twinnet.report.chart import LEFT, NARROW, RIGHT, WIDTH, Scale, Tick, round_steps, scale_of
from twinnet.report.figures import clean

if TYPE_CHECKING:
    from twinnet.report.profiles.flame import Flame

__all__ = ["Along", "Bar", "History", "Trend", "along", "flame", "history", "trend"]

_WIDTHS = (WIDTH, NARROW)
"""Letters keep their size, so that a phone gets a chart of its own."""


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

    @property
    def failing(self) -> int:
        """How many sessions have something bad."""
        return sum(bar.session.bad > 0 for bar in self.bars)

    def has(self, kind: str) -> bool:
        """Whether a bar has such a part."""
        return any(part[0] == kind for bar in self.bars for part in bar.parts)


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
class Rect:
    """The time of a layer."""

    x: float
    y: float
    width: float
    height: float
    title: str
    kind: str


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
    bars: tuple[Rect, ...]
    time_ticks: tuple[Tick, ...]
    height: float
    right: float
    width: float
    told: str
    left: float = LEFT
    floor: float = 190.0

    @property
    def paths(self) -> dict[str, str]:
        """The dots of the first run by their status, each kind as one path."""
        return _paths((dot.x, dot.y, dot.status) for dot in self.first)


def along(first: Sequence[LayerRow], second: Sequence[LayerRow], link: str) -> tuple[Along, ...]:
    """The chart of one run, or of two beside each other, for wide pages and for phones; none without layers.

    `link` is an address to which a layer's number is added.
    """
    if not first and not second:
        return ()
    return tuple(_along(first, second, link, width) for width in _WIDTHS)


def _along(first: Sequence[LayerRow], second: Sequence[LayerRow], link: str, width: float) -> Along:
    names = list(dict.fromkeys(row.tensor for row in (*first, *second)))
    where = {name: i for i, name in enumerate(names)}
    step = (width - LEFT - RIGHT) / len(names)
    allowed = [row.allowed for row in (*first, *second) if row.allowed]
    scale = scale_of([_finite(r.ratio) for r in (*first, *second)], allowed[:1], 18.0, 190.0)
    timed = any(row.time for row in (*first, *second))

    def dots(rows: Sequence[LayerRow]) -> tuple[Dot, ...]:
        return tuple(
            Dot(
                round(LEFT + (where[row.tensor] + 0.5) * step, 2),
                scale(row.ratio),
                row.status.replace(" ", "-") or "none",
                f"{row.label}: {ratio(row.ratio)}{', ' + seconds(row.time) if row.time else ''}",
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
        _labels(first, where, step, scale, width),
        round(min(4.0, max(1.8, step * 0.35)), 2),
        bars,
        time_ticks,
        height,
        width - RIGHT,
        width,
        _told(first),
    )


def _told(rows: Sequence[LayerRow]) -> str:
    """The chart in words."""
    known = [row for row in rows if row.ratio is not None]
    failing = sum(row.status == "fail" for row in known)
    worst = max(known, key=lambda row: row.ratio or 0.0, default=None)
    slow = max((row for row in rows if row.time), key=lambda row: row.time or 0.0, default=None)
    said = [f"{len(rows)} layers along the network"]
    if worst is not None:
        said.append(f"{failing} too large; the largest error is in {worst.label}, {ratio(worst.ratio)}")
    if slow is not None:
        said.append(f"the slowest is {slow.label}, {seconds(slow.time)}")
    return clean("; ".join(said))


def _paths(dots: Iterable[tuple[float, float, str]]) -> dict[str, str]:
    """Dots without links and words, for pages where nobody points at one: a tenth of the bytes."""
    found: dict[str, list[str]] = {}
    for x, y, kind in dots:
        found.setdefault(kind, []).append(f"M{x:g} {y:g}h0")
    return {kind: "".join(pieces) for kind, pieces in found.items()}


def _labels(
    rows: Sequence[LayerRow], where: Mapping[str, int], step: float, scale: Scale, width: float
) -> tuple[tuple[float, float, str, str], ...]:
    most, count = (44, 2) if width >= WIDTH else (26, 1)
    worst = sorted((r for r in rows if r.status == "fail"), key=lambda r: -(r.ratio or 0))[:count]
    found = []
    for row in worst:
        x = LEFT + (where[row.tensor] + 0.5) * step
        right = x > width * (0.6 if width >= WIDTH else 0.5)
        text = row.label
        if len(text) > most:
            text = f"{text[: most // 2 - 2]}...{text[-(most // 2 - 1) :]}"
        found.append(
            (x + (-9 if right else 9), scale(row.ratio) + 4, "end" if right else "start", clean(text))
        )
    return tuple(found)


def _time_bars(
    first: Sequence[LayerRow], second: Sequence[LayerRow], where: Mapping[str, int], step: float
) -> tuple[tuple[Rect, ...], tuple[Tick, ...], float]:
    top, bottom = 226.0, 300.0
    most = max(row.time or 0.0 for row in (*first, *second)) or 1.0
    scale = _Linear(most, top, bottom)
    wide = max(step * (0.42 if second else 0.8), 0.6)
    bars = []
    for kind, rows in (("one", first), ("two", second)):
        for row in rows:
            if row.time:
                x = LEFT + where[row.tensor] * step + step * 0.08 + (wide if kind == "two" else 0.0)
                y = scale(row.time)
                title = f"{row.label}: {seconds(row.time)}"
                bars.append(
                    Rect(round(x, 2), y, round(wide, 2), round(bottom - y, 2), title, kind if second else "")
                )
    return tuple(bars), scale.ticks(2), bottom + 20


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value left its band: the dashed line up or down to its words."""

    x: float
    y: float
    kind: str
    words: str
    line: str
    text_x: float
    text_y: float
    anchor: str


@dataclass(frozen=True, slots=True)
class Trend:
    """Values over sessions, their band, and marks where they left it."""

    dots: tuple[tuple[float, float, str, str, str], ...]
    line: str
    bands: tuple[str, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    dates: tuple[tuple[float, str], ...]
    right: float
    width: float
    told: str
    height: float = 224.0
    left: float = LEFT
    base: float = 196.0

    @property
    def paths(self) -> dict[str, str]:
        """The dots by their verdict, each kind as one path."""
        return _paths((x, y, verdict.lower()) for x, y, verdict, _, _ in self.dots)


def trend(
    points: Sequence[Point], values: Sequence[float | None], band: Band, words: Any, what: str
) -> tuple[Trend, ...]:
    """The chart of values over sessions, for wide pages and for phones; none where no value is known.

    `words` says a value, `what` is "ratio" or "time".
    """
    if all(value is None for value in values):
        return ()
    return tuple(_trend(points, values, band, words, what, width) for width in _WIDTHS)


def _trend(
    points: Sequence[Point],
    values: Sequence[float | None],
    band: Band,
    words: Any,
    what: str,
    width: float,
) -> Trend:
    known = [v for v in values if v is not None]
    scale: Any = (
        scale_of([_finite(v) for v in values], [], 22.0, 196.0)
        if what == "ratio"
        else _Linear(max((*known, *(h for h in band.high if h is not None))), 22.0, 196.0)
    )
    step = (width - LEFT - RIGHT) / max(len(points), 12)
    start = width - RIGHT - len(points) * step
    xs = [round(start + (i + 0.5) * step, 2) for i in range(len(points))]
    dots, line = [], ""
    for x, point, value in zip(xs, points, values, strict=True):
        if value is not None:
            y = scale(value)
            line += f"{'L' if line else 'M'}{x:g} {y:g}"
            title = f"session {point.session_id}: {words(value)}, {point.verdict}"
            dots.append((x, y, point.verdict, title, f"/cases/{point.run_id}"))
    marks = [
        _mark(xs[i], scale(values[i]), "worse" if i in band.marks else "better", words(values[i]), width)
        for i in (*band.marks, *band.better)
    ]
    every = max(1, math.ceil(len(points) / (8 if width >= WIDTH else 4)))
    dates = [
        (xs[i], f"{when.day} {when:%b}")
        for i in range(0, len(points), every)
        for when in [datetime.fromtimestamp(points[i].started, UTC)]
    ]
    ticks = scale.ticks(5 if what == "ratio" else 4)
    told = f"{len(known)} sessions, the last {words(known[-1])}"
    told += (
        f"; left its band {len(band.marks)} {'time' if len(band.marks) == 1 else 'times'}"
        if band.marks
        else ""
    )
    return Trend(
        tuple(dots),
        line,
        _areas(xs, band, scale),
        tuple(marks),
        ticks,
        tuple(dates),
        width - RIGHT,
        width,
        told,
    )


def _mark(x: float, y: float, kind: str, words: str, width: float) -> Mark:
    """A mark with its words where there is room: above the point, or beside one that stands at the top."""
    if y > 60:
        near_end = x > width - 60
        return Mark(x, y, kind, words, f"M{x:g} {y - 7:g}V24", x, 19, "end" if near_end else "middle")
    right = x > width * 0.5
    return Mark(x, y, kind, words, "", x + (-12 if right else 12), y + 4, "end" if right else "start")


@dataclass(frozen=True, slots=True)
class _Linear:
    """A linear axis of times, from zero."""

    most: float
    top: float
    bottom: float

    def __call__(self, value: float | None) -> float:
        share = min(max((value or 0.0) / (self.most or 1.0), 0.0), 1.0)
        return round(self.bottom - share * (self.bottom - self.top), 2)

    def ticks(self, count: int) -> tuple[Tick, ...]:
        return tuple(Tick(self(v), _round(v)) for v in round_steps(self.most, count))


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


def _round(value: float) -> str:
    """A round time without digits that say nothing.

    >>> _round(0.02).replace("\xa0", " "), _round(0.0)
    ('20 ms', '0')
    """
    number, space, unit = seconds(value).partition("\xa0")
    return f"{float(number):g}{space}{unit}" if value else "0"
