"""Compare: any two sessions, or two engines of one, side by side, sorted by change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages.base import number, shown, text
from twinnet.dashboard.queries import changes as c
from twinnet.dashboard.queries import models as m
from twinnet.dashboard.queries import sessions as s

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from starlette.requests import Request

__all__ = ["routes"]

_PAGE = 200


def routes(desk: Desk) -> list[Route]:
    """The address of the comparison."""
    return [Route("/compare", shown(desk, "compare.html.j2", _compare))]


def _compare(request: Request, connection: Connection) -> dict[str, Any] | None:
    recent = s.sessions(connection, s.Filter(), 100)
    chosen = number(request, "a")
    one = s.find_session(connection, chosen) if chosen else s.latest(connection)
    if one is None:
        return {"one": None, "two": None, "recent": recent, "rows": [], "engines": [], **_nothing()}
    engine, other = text(request, "engine"), text(request, "other")
    engines = m.engines_in(connection, one.id)
    start = number(request, "start") or 0
    two = None
    if engine and other:
        found = c.between_engines(connection, one.id, engine, other)
    else:
        wanted = number(request, "b")
        two = s.find_session(connection, wanted) if wanted else s.baseline_of(connection, one)
        found = c.between_sessions(connection, one.id, two.id) if two is not None else c.Changes(())
    for session in (one, two):
        if session is not None and all(x.id != session.id for x in recent):
            recent = [session, *recent]
    everything = text(request, "all") == "1"
    rows = found.rows if everything else tuple(row for row in found.rows if row.kind != "same")
    return {
        "one": one,
        "two": two,
        "recent": recent,
        "engines": engines,
        "engine": engine,
        "other": other,
        "counts": found.counts,
        "rows": c.placed(connection, rows[start : start + _PAGE]),
        "start": start,
        "total": len(rows),
        "everything": everything,
        "page": _PAGE,
    }


def _nothing() -> dict[str, Any]:
    return {
        "engine": "",
        "other": "",
        "counts": {},
        "start": 0,
        "total": 0,
        "everything": False,
        "page": _PAGE,
    }
