"""All models, and one model: its layers along the network, two engines or two sessions on one chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from twinnet.dashboard import charts
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages.base import number, shown, text
from twinnet.dashboard.queries import models as m
from twinnet.dashboard.queries import runs as r
from twinnet.dashboard.queries.runs import LayerRow, RunRow

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from starlette.requests import Request

__all__ = ["routes"]

_PAGE = 50


def routes(desk: Desk) -> list[Route]:
    """The addresses of models."""
    return [
        Route("/models", shown(desk, "models.html.j2", _models)),
        Route("/models/{model:path}", shown(desk, "model.html.j2", _model)),
    ]


def _models(request: Request, connection: Connection) -> dict[str, Any]:
    names = m.models(connection, _PAGE, text(request, "after"), text(request, "q"))
    found = m.last_runs(connection, names)
    engines = sorted({run.engine for run in found})
    return {
        "names": names,
        "engines": engines,
        "cells": {(run.model, run.engine): run for run in found},
        "q": text(request, "q"),
        "more": names[-1] if len(names) == _PAGE else None,
    }


def _model(request: Request, connection: Connection) -> dict[str, Any] | None:
    model = text(request, "model")
    sessions = m.sessions_with(connection, model)
    if not sessions:
        return None
    session = number(request, "session") or sessions[0].id
    engines = m.engines_in(connection, session, model)
    engine = text(request, "engine") or _worst_engine(connection, session, model) or ""
    second = number(request, "against")
    other_engine = text(request, "with")
    one = _run(connection, session, model, engine)
    two = None
    if second or other_engine:
        two = _run(connection, second or session, model, other_engine or engine)
        if two is not None and one is not None and two.id == one.id:
            two = None
    first = _layers(connection, one, session, model, engine)
    also = _layers(connection, two, second or session, model, other_engine or engine) if two else []
    link = f"/trends?run={one.id}&place=" if one is not None else "#layer-"
    return {
        "model": model,
        "sessions": sessions,
        "session": session,
        "engines": engines,
        "all_engines": sorted({*engines, *(m.engines_in(connection, second, model) if second else ())}),
        "engine": engine,
        "against": second,
        "other_engine": other_engine,
        "one": one,
        "two": two,
        "chart": charts.along(first, also, link),
        "rows": _beside(first, also),
        "link": link,
        "cases": [run for run in m.runs_in(connection, session, model) if run.layer and run.engine == engine],
    }


def _worst_engine(connection: Connection, session: int, model: str) -> str:
    """The engine to look at first: one that fails, else the one with the largest error."""
    found = [run for run in m.runs_in(connection, session, model) if not run.layer]
    found = found or m.runs_in(connection, session, model)
    worst = max(found, key=lambda run: (run.bad, run.ratio or 0.0), default=None)
    return worst.engine if worst is not None else ""


def _run(connection: Connection, session: int, model: str, engine: str) -> RunRow | None:
    """The whole model on an engine in a session."""
    found = r.runs(connection, r.RunFilter(session, model, engine, layer=""), 1)
    return found[0] if found else None


def _layers(
    connection: Connection, run: RunRow | None, session: int, model: str, engine: str
) -> list[LayerRow]:
    """The pairs of the whole model; without them, the layers that were cut out of it and run on their own."""
    found = [] if run is None else r.layers_of(connection, run.id)
    if any(row.ratio is not None or row.time is not None for row in found):
        return found
    cases = [one for one in m.runs_in(connection, session, model) if one.layer and one.engine == engine]
    cases.sort(key=lambda one: _place_of(one.layer))
    return [
        LayerRow(i, i, one.layer, one.layer, "", _STATUS.get(one.verdict, ""), one.ratio, 4.0, None, one.time)
        for i, one in enumerate(cases)
        if one.verdict != "SKIP"
    ]


_STATUS = {"PASS": "pass", "FAIL": "fail", "ERROR": "not judged"}


def _place_of(layer: str) -> tuple[int, str]:
    """Where a layer stands: names of layers end in their number.

    >>> sorted(["Conv_10", "Relu_2"], key=_place_of)
    ['Relu_2', 'Conv_10']
    """
    number = layer.rpartition("_")[2]
    return (int(number) if number.isdecimal() and len(number) < 10 else 1 << 30), layer


def _beside(first: list[LayerRow], second: list[LayerRow]) -> list[dict[str, Any]]:
    """Rows of both runs beside each other, in the order of the network, with how much changed."""
    theirs = {row.tensor: row for row in second}
    rows = []
    for row in first:
        other = theirs.get(row.tensor)
        change = None
        if other is not None and row.ratio is not None and other.ratio is not None:
            change = max(row.ratio, 1.0) / max(other.ratio, 1.0)
        rows.append({"row": row, "other": other, "change": change})
    return rows
