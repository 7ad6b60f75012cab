"""What goes: old sessions, old files, and blobs that nothing names any more."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from twinnet.dashboard.database import Database
from twinnet.dashboard.models import Answer, File, Layer, Run, Session
from twinnet.dashboard.settings import Keep
from twinnet.dashboard.store import Store

__all__ = ["Cleaned", "clean_up", "remove_session"]

_DAY = 86400.0
_GRACE = 3600.0
"""Blobs younger than this may belong to an upload that is not finished."""
_SMALL = ("result.json", "report.html", "summary.md", "error.txt", "profile/profile.json")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many sessions, files and blobs went."""

    sessions: int = 0
    files: int = 0
    blobs: int = 0


def clean_up(database: Database, store: Store, keep: Keep, now: float | None = None) -> Cleaned:
    """Apply the rules. Pinned sessions and the newest session of each branch stay, whatever their age."""
    now = time.time() if now is None else now
    sessions = _old_sessions(database, keep.sessions, now)
    for number in sessions:
        remove_session(database, number)
    files = _drop_files(database, keep.files, now)
    return Cleaned(len(sessions), files, _sweep(database, store))


def remove_session(database: Database, session_id: int) -> bool:
    """Remove a session with all its rows; whether there was one."""
    runs = sa.select(Run.id).where(Run.session_id == session_id)
    with database.writing() as connection:
        for table in (Layer, Answer, File):
            connection.execute(sa.delete(table).where(table.run_id.in_(runs)))
        connection.execute(sa.delete(Run).where(Run.session_id == session_id))
        gone = connection.execute(sa.delete(Session).where(Session.id == session_id))
    return bool(gone.rowcount)


def _spared() -> Any:
    """Sessions that stay: the newest of each branch, and the pinned ones."""
    newest = sa.select(sa.func.max(Session.started)).group_by(Session.branch, Session.made_by)
    return sa.select(Session.id).where(sa.or_(Session.pinned, Session.started.in_(newest)))


def _old_sessions(database: Database, days: float | None, now: float) -> list[int]:
    if days is None:
        return []
    with database.reading() as connection:
        return list(
            connection.execute(
                sa.select(Session.id)
                .where(Session.started < now - days * _DAY, Session.id.not_in(_spared()))
                .order_by(Session.id)
            ).scalars()
        )


def _drop_files(database: Database, days: float | None, now: float) -> int:
    """Forget large files of old sessions; verdicts, layers and the small files stay."""
    if days is None:
        return 0
    runs = (
        sa.select(Run.id)
        .join(Session, Run.session_id == Session.id)
        .where(Session.started < now - days * _DAY, sa.not_(Session.pinned))
    )
    with database.writing() as connection:
        gone = connection.execute(
            sa.delete(File).where(File.run_id.in_(runs), File.path.not_in(_SMALL), File.size > 4096)
        )
    return gone.rowcount


def _sweep(database: Database, store: Store) -> int:
    """Remove blobs that no file names."""
    gone = 0
    for digest in list(store.digests(older=_GRACE)):
        with database.reading() as connection:
            used = connection.execute(sa.select(File.run_id).where(File.digest == digest).limit(1)).first()
        if used is None:
            store.remove(digest, _GRACE)
            gone += 1
    return gone
