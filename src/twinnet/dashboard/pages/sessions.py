"""The first page, with how things stand and all sessions; and the page of one session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinnet.dashboard import charts
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages.base import number, shown, text
from twinnet.dashboard.queries import changes as c
from twinnet.dashboard.queries import runs as r
from twinnet.dashboard.queries import sessions as s

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from starlette.requests import Request

__all__ = ["Standing", "routes", "standing"]

_PAGE, _HISTORY, _SHOWN = 40, 40, 50
_CHANGED: tuple[c.Kind, ...] = (
    *("new failure", "less accurate", "slower", "not run", "fixed", "more accurate", "faster"),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """A session against another in one word and one sentence, with what to look at first."""

    word: str
    verdict: str
    sentence: str
    changes: c.Changes | None
    top: tuple[c.Change, ...]


def standing(
    connection: Connection, session: s.SessionRow, base: s.SessionRow | None, found: c.Changes | None
) -> Standing:
    """Whether a session is worse than the one before."""
    if base is None or found is None:
        verdict = session.verdict
        bad = f"{session.bad} of {session.total} cases fail" if session.bad else "every case is as expected"
        return Standing(verdict, verdict, f"{bad}; there is no earlier session to compare with", None, ())
    counts = found.counts
    told = [
        f"{counts[kind]} {_plural(kind, counts[kind])}"
        for kind in ("new failure", "less accurate", "slower", "fixed", "more accurate", "faster")
        if kind in counts
    ]
    failing = counts.get("still failing", 0)
    still = f"; {failing} still {'fails' if failing == 1 else 'fail'}" if failing else ""
    said = f"{', '.join(told) or 'nothing changed'} against session {base.id}{still}"
    missing = counts.get("not run", 0) if session.made_by == "suite" else 0
    if missing:
        yet = "" if session.finished else " yet"
        said += f"; {missing} of its cases {'has' if missing == 1 else 'have'} not run{yet}"
    top = tuple(c.placed(connection, found.of("new failure", "less accurate", "slower")[:4]))
    if "new failure" in counts or "less accurate" in counts:
        return Standing("WORSE", "FAIL", said, found, top)
    if "slower" in counts:
        return Standing("SLOWER", "ERROR", said, found, top)
    if missing:  # nothing that did run is worse, which is no all-clear
        return Standing("INCOMPLETE", "ERROR", said, found, tuple(found.of("not run")[:4]))
    if told:
        return Standing("BETTER", "PASS", said, found, ())
    return Standing("SAME", "FAIL" if session.bad else "PASS", said, found, ())


def _plural(kind: str, count: int) -> str:
    return "new failures" if kind == "new failure" and count > 1 else kind


def routes(desk: Desk) -> list[Route]:
    """The addresses of sessions."""
    return [
        Route("/", shown(desk, "home.html.j2", _home)),
        Route("/sessions/{session:int}", shown(desk, "session.html.j2", _session)),
        Route("/sessions/{session:int}/cases", shown(desk, "cases.html.j2", _cases)),
        Route("/s/{key:str}", shown(desk, "", _by_key)),
        Route("/s/{key:str}/{case:path}", shown(desk, "", _by_key)),
    ]


def _home(request: Request, connection: Connection) -> dict[str, Any]:
    wanted = s.Filter(
        text(request, "q"),
        text(request, "branch"),
        text(request, "engine"),
        text(request, "who"),
        text(request, "made_by"),
        text(request, "bad") == "1",
    )
    found = s.sessions(connection, wanted, _PAGE, number(request, "before"))
    now = s.latest(connection)
    told, recent = None, []
    if now is not None:
        base = s.baseline_of(connection, now)
        between = c.between_sessions(connection, now.id, base.id) if base is not None else None
        told = standing(connection, now, base, between)
        same = s.Filter(branch=now.branch, made_by=now.made_by)
        recent = s.sessions(connection, same, _HISTORY)[::-1]
    return {
        "wanted": wanted,
        "sessions": found,
        "more": found[-1].id if len(found) == _PAGE else None,
        "now": now,
        "told": told,
        "history": charts.history(recent, now.id) if now is not None and len(recent) > 1 else None,
        "branches": s.branches(connection),
        "first": number(request, "before") is None,
    }


def _session(request: Request, connection: Connection) -> dict[str, Any] | None:
    session = s.find_session(connection, number(request, "session") or 0)
    if session is None:
        return None
    chosen = number(request, "against")
    base = s.find_session(connection, chosen) if chosen else s.baseline_of(connection, session)
    between = c.between_sessions(connection, session.id, base.id) if base is not None else None
    cells = r.matrix(connection, session.id)
    models = list(dict.fromkeys(cell.model for cell in cells))
    others = s.sessions(connection, s.Filter(made_by=session.made_by), 60, session.id)
    if base is not None and all(one.id != base.id for one in others):
        others = [base, *others]
    same = s.Filter(branch=session.branch, made_by=session.made_by)
    recent = [session, *s.sessions(connection, same, _HISTORY - 1, session.id)][::-1]
    changed = between.of(*_CHANGED) if between is not None else []
    return {
        "session": session,
        "base": base,
        "told": standing(connection, session, base, between),
        "counts": between.counts if between is not None else {},
        "changed": c.placed(connection, changed[:_SHOWN]),
        "more_changed": max(len(changed) - _SHOWN, 0),
        "engines": sorted({cell.engine for cell in cells}),
        "models": models[:300],
        "left_out": max(len(models) - 300, 0),
        "cells": {(cell.model, cell.engine): cell for cell in cells},
        "groups": r.groups(connection, session.id, 40),
        "others": others,
        "history": charts.history(recent, session.id) if len(recent) > 1 else None,
        **s.summary(connection, session.id),
    }


def _cases(request: Request, connection: Connection) -> dict[str, Any] | None:
    session = s.find_session(connection, number(request, "session") or 0)
    if session is None:
        return None
    verdict = text(request, "verdict")
    wanted = r.RunFilter(
        session.id,
        text(request, "model"),
        text(request, "engine"),
        verdict=verdict if verdict in ("PASS", "FAIL", "ERROR", "SKIP") else "",
        complaint_id=number(request, "group"),
    )
    found = r.runs(connection, wanted, 200, number(request, "before"))
    return {
        "session": session,
        "runs": found,
        "verdict": verdict,
        "group": wanted.complaint_id,
        "model": wanted.model,
        "engine": wanted.engine,
        "more": found[-1].id if len(found) == 200 else None,
    }


def _by_key(request: Request, connection: Connection) -> Response | None:
    """The address that a client knows before the server has numbered anything."""
    session = s.find_session(connection, text(request, "key"))
    if session is None:
        return None
    case = text(request, "case")
    if not case:
        return RedirectResponse(f"/sessions/{session.id}", 303)
    run = r.run_named(connection, session.id, case)
    return None if run is None else RedirectResponse(f"/cases/{run.id}", 303)
