"""Sessions: lists with filters, one of them, and the one to compare it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twinnet.dashboard.models import Run, Session

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

__all__ = [
    "Filter",
    "SessionRow",
    "baseline_of",
    "branches",
    "earlier",
    "find_session",
    "latest",
    "sessions",
    "summary",
]

_SAMPLE, _CANDIDATES = 60, 40
_MAIN = ("main", "master", "trunk", "develop")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as lists show it."""

    id: int
    key: str
    made_by: str
    title: str
    branch: str
    commit: str
    who: str
    engines: str
    started: float
    finished: float | None
    total: int
    passed: int
    failed: int
    errors: int
    skipped: int
    known: int
    pinned: bool

    @property
    def bad(self) -> int:
        """Failures and errors that nobody expected."""
        return max(self.failed + self.errors - self.known, 0)

    @property
    def verdict(self) -> str:
        """The verdict of all cases together."""
        if not self.bad:
            return "PASS"
        return "FAIL" if self.failed else "ERROR"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which sessions: all texts are parts of names; `bad` only those with something to look at."""

    text: str = ""
    branch: str = ""
    engine: str = ""
    who: str = ""
    made_by: str = ""
    bad: bool = False


_COLUMNS = [getattr(Session, name) for name in SessionRow.__dataclass_fields__]


def sessions(
    connection: Connection, wanted: Filter, limit: int, before: int | None = None
) -> list[SessionRow]:
    """Sessions, the newest first; `before` is the id of the last one of the page before."""
    query = sa.select(*_COLUMNS).order_by(Session.started.desc(), Session.id.desc()).limit(limit)
    for condition in _conditions(wanted):
        query = query.where(condition)
    if before is not None:
        query = query.where(earlier(before))
    return [SessionRow(*row) for row in connection.execute(query)]


def earlier(session_id: int) -> Any:
    """The condition that a session comes before another in the order of time."""
    last = sa.select(Session.started).where(Session.id == session_id).scalar_subquery()
    return sa.or_(Session.started < last, sa.and_(Session.started == last, Session.id < session_id))


def _conditions(wanted: Filter) -> list[Any]:
    found = []
    if wanted.branch:
        found.append(Session.branch == wanted.branch)
    if wanted.made_by:
        found.append(Session.made_by == wanted.made_by)
    if wanted.who:
        found.append(Session.who == wanted.who)
    if wanted.engine:
        found.append(Session.engines.contains(wanted.engine, autoescape=True))
    if wanted.bad:
        found.append(Session.failed + Session.errors > Session.known)
    for word in wanted.text.split()[:8]:
        columns = (Session.branch, Session.commit, Session.who, Session.engines, Session.title, Session.key)
        found.append(sa.or_(*(column.icontains(word, autoescape=True) for column in columns)))
    return found


def find_session(connection: Connection, key: int | str) -> SessionRow | None:
    """A session by its number or its key."""
    which = Session.id == key if isinstance(key, int) else Session.key == key
    row = connection.execute(sa.select(*_COLUMNS).where(which)).first()
    return None if row is None else SessionRow(*row)


def latest(connection: Connection) -> SessionRow | None:
    """The session that says how things stand: the newest suite of the main branch, else the newest of all."""
    for condition in (
        [Session.branch.in_(_MAIN), Session.made_by == "suite"],
        [Session.made_by == "suite"],
        [],
    ):
        row = connection.execute(
            sa.select(*_COLUMNS)
            .where(*condition, Session.total > 0)
            .order_by(Session.started.desc(), Session.id.desc())
            .limit(1)
        ).first()
        if row is not None:
            return SessionRow(*row)
    return None


def branches(connection: Connection) -> list[str]:
    """The branches there are."""
    rows = connection.execute(
        sa.select(Session.branch).where(Session.branch != "").distinct().order_by(Session.branch).limit(300)
    )
    return list(rows.scalars())


def summary(connection: Connection, session_id: int) -> dict[str, Any]:
    """Command and environment of a session."""
    row = connection.execute(
        sa.select(Session.command, Session.environment).where(Session.id == session_id)
    ).one()
    return {"command": row.command or [], "environment": row.environment or {}}


def baseline_of(connection: Connection, session: SessionRow) -> SessionRow | None:
    """The session before that ran the same cases: of the same branch if there is one, else of a main branch, or any.

    One that was cut off counts only if there is no other: what it did not run would be missing from every comparison.
    """
    own = sa.select(Run.series_id).where(Run.session_id == session.id).limit(_SAMPLE)
    series = list(connection.execute(own).scalars())
    if not series:
        return None
    for condition in ([Session.branch == session.branch], [Session.branch.in_(_MAIN)], []):
        earlier = {
            row[0]: row[1] is not None
            for row in connection.execute(
                sa.select(Session.id, Session.finished)
                .where(
                    *condition,
                    Session.made_by == session.made_by,
                    sa.or_(
                        Session.started < session.started,
                        sa.and_(Session.started == session.started, Session.id < session.id),
                    ),
                )
                .order_by(Session.started.desc(), Session.id.desc())
                .limit(_CANDIDATES)
            )
        }
        rows = connection.execute(
            sa.select(Run.session_id, sa.func.count())
            .where(Run.session_id.in_(earlier), Run.series_id.in_(series))
            .group_by(Run.session_id)
        )
        counts = {row[0]: row[1] for row in rows}
        if counts:
            enough = max(counts.values()) / 2
            alike = [number for number in earlier if counts.get(number, 0) >= enough]
            return find_session(connection, next((n for n in alike if earlier[n]), alike[0]))
    return None
