"""Trends: accuracy and time of a model or a layer over sessions, and where they left the band of their noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from twinnet.dashboard import charts, words
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages.base import number, shown, text
from twinnet.dashboard.queries import models as m
from twinnet.dashboard.queries import runs as r
from twinnet.dashboard.queries import sessions as s
from twinnet.dashboard.queries import trends as t

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from starlette.requests import Request

__all__ = ["routes"]

_MOST = 12


def routes(desk: Desk) -> list[Route]:
    """The address of trends."""
    return [Route("/trends", shown(desk, "trends.html.j2", _trends))]


def _trends(request: Request, connection: Connection) -> dict[str, Any] | None:
    model, engine, layer = text(request, "model"), text(request, "engine"), text(request, "layer")
    branch, place = text(request, "branch"), number(request, "place")
    run = r.find_run(connection, number(request, "run") or 0)
    if run is not None:
        model, engine, layer = model or run.model, engine or run.engine, layer or run.layer
    names = m.models(connection, 300)
    if not model and names:
        model = names[0]
    found = t.series_of(connection, model, engine, layer) if model else []
    shown_series = [_one(connection, one, branch, place) for one in found[:_MOST]]
    every = t.series_of(connection, model, layer=None) if model else []
    last = next((one["points"][-1].run_id for one in shown_series if one["points"]), None)
    return {
        "model": model,
        "engine": engine,
        "layer": layer,
        "branch": branch,
        "place": place,
        "names": names,
        "engines": sorted({one.engine for one in every}),
        "branches": s.branches(connection),
        "places": t.places(connection, last) if last is not None else [],
        "layers": sorted({one.layer for one in every if one.layer}),
        "series": shown_series,
        "left_out": max(len(found) - _MOST, 0),
    }


@dataclass(frozen=True, slots=True)
class Event:
    """Accuracy or time left its band: where, from what to what, and where it came back, if it did."""

    what: str
    left: t.Point
    before: str
    after: str
    back: t.Point | None


def _one(connection: Connection, series: t.SeriesRow, branch: str, place: int | None) -> dict[str, Any]:
    points = t.points(connection, series.id, branch=branch, place_id=place)
    made: dict[str, Any] = {}
    told: list[Event] = []
    series_values: tuple[tuple[str, t.What, list[float | None], Callable[[float | None], str]], ...] = (
        ("accuracy", "ratio", [p.ratio for p in points], words.ratio),
        ("time", "time", [p.time for p in points], words.seconds),
    )
    for what, kind, values, say in series_values:
        band = t.band_of(values, kind)
        made[what] = charts.trend(points, values, band, say, kind)
        for i in band.marks[-3:]:
            before = next((v for v in reversed(values[:i]) if v is not None), None)
            back = t.returned(values, band, i)
            returned = None if back is None else points[back]
            told.append(Event(what, points[i], say(before), say(values[i]), returned))
    out = any(event.back is None for event in told)
    return {"series": series, "points": points, "told": told, "out": out, **made}
