"""A model or a layer over sessions: values in time, the band of their noise, and where they left it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from twinnet.dashboard.models import Layer, Place, Run, Series, Session
from twinnet.dashboard.queries.sessions import earlier

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

__all__ = ["Band", "Point", "SeriesRow", "What", "band_of", "places", "points", "returned", "series_of"]

What = Literal["ratio", "time"]
_WINDOW, _FEW, _SETTLED = 20, 4, 3
_WIDTH = {"ratio": math.log(4.0), "time": math.log(1.15)}
"""The least half-width of a band, as a logarithm: changes below it are never marked."""


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A case that comes back."""

    id: int
    model: str
    layer: str
    engine: str


@dataclass(frozen=True, slots=True)
class Point:
    """One session's value."""

    session_id: int
    run_id: int
    started: float
    branch: str
    commit: str
    verdict: str
    ratio: float | None
    time: float | None


@dataclass(frozen=True, slots=True)
class Band:
    """What noise explains at each point, and the points where the values left it; None where too little is known."""

    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    marks: tuple[int, ...]
    better: tuple[int, ...]


def series_of(
    connection: Connection, model: str, engine: str = "", layer: str | None = ""
) -> list[SeriesRow]:
    """The series of a model; `layer` None is all of its layers, empty the whole model."""
    query = sa.select(Series.id, Series.model, Series.layer, Series.engine).where(
        Series.model == model, sa.not_(Series.random)
    )
    if engine:
        query = query.where(Series.engine == engine)
    if layer is not None:
        query = query.where(Series.layer == layer)
    return [
        SeriesRow(*row) for row in connection.execute(query.order_by(Series.engine, Series.layer).limit(2000))
    ]


def points(
    connection: Connection,
    series_id: int,
    *,
    branch: str = "",
    place_id: int | None = None,
    limit: int = 200,
    before: int | None = None,
) -> list[Point]:
    """The last values of a series, the oldest first; with a place, the values of that layer inside it.

    `before` is the number of a session: only sessions before it count.
    """
    ratio, took = (Run.ratio, Run.time) if place_id is None else (Layer.ratio, Layer.time)
    query: Any = (
        sa.select(
            Session.id, Run.id, Session.started, Session.branch, Session.commit, Run.verdict, ratio, took
        )
        .select_from(Run)
        .join(Session, Run.session_id == Session.id)
        .where(Run.series_id == series_id, Run.verdict != "SKIP")
        .order_by(Session.started.desc(), Session.id.desc())
        .limit(limit)
    )
    if branch:
        query = query.where(Session.branch == branch)
    if before is not None:
        query = query.where(earlier(before))
    if place_id is not None:
        query = query.join(Layer, sa.and_(Layer.run_id == Run.id, Layer.place_id == place_id))
    return [Point(*row) for row in connection.execute(query)][::-1]


def places(connection: Connection, run_id: int) -> list[Any]:
    """The layers inside a run: id, label."""
    return list(
        connection.execute(
            sa.select(Place.id, Place.label)
            .join(Layer, Layer.place_id == Place.id)
            .where(Layer.run_id == run_id)
            .order_by(Layer.position)
        )
    )


def band_of(values: Sequence[float | None], what: What) -> Band:
    """The band that the values before a point span: their median and three times their spread, on a logarithmic scale.

    A value outside is not counted into the band. If it stays outside three times, that is the new normal, and the band
    starts again there.

    >>> band_of([2.0, 2.1, 1.9, 2.0, 2.0, 90.0, 2.0], "ratio").marks
    (5,)
    >>> band_of([1.0] * 6 + [2.0] * 6, "time").marks
    (6,)
    """
    least = _WIDTH[what]
    known: list[float] = []
    outside: list[tuple[int, float]] = []
    low: list[float | None] = []
    high: list[float | None] = []
    marks: list[int] = []
    better: list[int] = []
    for i, value in enumerate(values):
        middle, width = _middle(known, least)
        ready = len(known) >= _FEW
        low.append(math.exp(middle - width) if ready else None)
        high.append(math.exp(middle + width) if ready else None)
        if value is None:
            continue
        level = math.log(max(value, 1.0 if what == "ratio" else 1e-12))
        side = (level > middle + width) - (level < middle - width) if ready else 0
        if side == 0:
            known = [*known[1 - _WINDOW :], level]
            outside = []
            continue
        if not outside or outside[-1][0] != side:
            (marks if side > 0 else better).append(i)
            outside = []
        outside.append((side, level))
        if len(outside) >= _SETTLED:
            known = [level for _, level in outside]
            outside = []
    return Band(tuple(low), tuple(high), tuple(marks), tuple(better))


def returned(values: Sequence[float | None], band: Band, mark: int) -> int | None:
    """Where the values came back into the band that they left at `mark`; None if they have not.

    >>> values = [2.0, 2.1, 1.9, 2.0, 90.0, 80.0, 2.0]
    >>> returned(values, band_of(values, "ratio"), 4), returned(values[:6], band_of(values[:6], "ratio"), 4)
    (6, None)
    """
    high = band.high[mark]
    later = range(mark + 1, len(values))
    return next((i for i in later if (v := values[i]) is not None and high is not None and v <= high), None)


def _middle(known: Sequence[float], least: float) -> tuple[float, float]:
    if not known:
        return 0.0, least
    middle = median(known)
    spread = 1.4826 * median(abs(v - middle) for v in known)
    return middle, max(3 * spread, least)
