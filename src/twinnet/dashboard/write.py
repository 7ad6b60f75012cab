"""A session and its cases into the database, within one transaction of the caller's.

A case that is there stays as it is: whoever sends it again changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinnet.dashboard.incoming import LayerIn, RunIn, SessionIn, key_of
from twinnet.dashboard.models import Answer, Complaint, File, Layer, Place, Run, Series, Session
from twinnet.suite.groups import normalised

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

__all__ = ["Stored", "Writer"]

_MANY = 500
"""Values in one IN (...), rows in one statement."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a case: its number, and whether it is new."""

    name: str
    run_id: int
    new: bool


class Writer:
    """Writes into one connection; ids of what comes back again and again are looked up once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ids: dict[type, dict[str, int]] = {Series: {}, Complaint: {}, Place: {}}

    def session(self, told: SessionIn) -> int:
        """The number of a session; it is made if it is new, and its end is noted once it is known."""
        import sqlalchemy as sa

        values = {
            "key": told.key,
            "made_by": told.made_by,
            "title": told.title,
            "branch": told.branch,
            "commit": told.commit,
            "who": told.who,
            "command": list(told.command),
            "environment": dict(told.environment),
            "started": told.started,
            "finished": told.finished,
            "received": time.time(),
            "engines": "",
            **dict.fromkeys(("total", "passed", "failed", "errors", "skipped", "known"), 0),
            "pinned": False,
        }
        self._insert(Session, [values])
        found = self._connection.execute(
            # The row stays locked until the end: two uploads of one session count one after the other.
            sa.select(Session.id, Session.finished).where(Session.key == told.key).with_for_update()
        ).one()
        if told.finished is not None and (found.finished is None or found.finished < told.finished):
            self._connection.execute(
                sa.update(Session).where(Session.id == found.id).values(finished=told.finished)
            )
        return found.id

    def runs(self, session_id: int, runs: Sequence[RunIn]) -> list[Stored]:
        """Write the cases that are not there yet, and bring the counts of the session up to date."""
        there = self._there(session_id, [run.name for run in runs])
        fresh = [run for run in runs if run.name not in there]
        if fresh:
            self._write(session_id, fresh)
            self.count(session_id)
            there |= self._there(session_id, [run.name for run in fresh])
        new = {run.name for run in fresh}
        return [Stored(run.name, there[run.name], run.name in new) for run in runs]

    def count(self, session_id: int) -> None:
        """Count the verdicts of a session again."""
        import sqlalchemy as sa

        def number(what: Any) -> Any:
            return sa.func.coalesce(sa.func.sum(sa.case((what, 1), else_=0)), 0)

        counts = self._connection.execute(
            sa.select(
                sa.func.count(),
                *(number(Run.verdict == verdict) for verdict in ("PASS", "FAIL", "ERROR", "SKIP")),
                number(Run.expected == "yes"),
            ).where(Run.session_id == session_id)
        ).one()
        engines = self._connection.execute(
            sa.select(Series.engine)
            .join(Run, Run.series_id == Series.id)
            .where(Run.session_id == session_id)
            .distinct()
            .order_by(Series.engine)
        ).scalars()
        names = ("total", "passed", "failed", "errors", "skipped", "known")
        self._connection.execute(
            sa.update(Session)
            .where(Session.id == session_id)
            .values(engines=", ".join(engines)[:2000], **dict(zip(names, counts, strict=True)))
        )

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _write(self, session_id: int, runs: Sequence[RunIn]) -> None:
        series = self._named(Series, {_series_key(run): _series(run) for run in runs})
        complaints = self._named(Complaint, {k: v for run in runs for k, v in _complaint(run).items()})
        places = self._named(
            Place, {_place_key(layer): _place(layer) for run in runs for layer in run.layers}
        )
        rows = [
            {
                "session_id": session_id,
                "series_id": series[_series_key(run)],
                "complaint_id": next((complaints[k] for k in _complaint(run)), None),
                **{name: getattr(run, name) for name in _COLUMNS},
            }
            for run in runs
        ]
        self._insert(Run, rows)
        ids = self._there(session_id, [run.name for run in runs])
        self._insert(
            Answer, [{"run_id": ids[run.name], "data": dict(run.answer)} for run in runs if run.answer]
        )
        self._insert(
            Layer,
            [
                {
                    "run_id": ids[run.name],
                    "position": position,
                    "place_id": places[_place_key(layer)],
                    **{
                        name: getattr(layer, name)
                        for name in ("status", "ratio", "allowed", "relative", "time")
                    },
                }
                for run in runs
                for position, layer in enumerate(run.layers)
            ],
        )
        self._insert(
            File,
            [
                {"run_id": ids[run.name], "path": f.path, "size": f.size, "digest": f.digest}
                for run in runs
                for f in run.files
            ],
        )

    def _there(self, session_id: int, names: Sequence[str]) -> dict[str, int]:
        import sqlalchemy as sa

        found: dict[str, int] = {}
        for some in _pieces(names):
            rows = self._connection.execute(
                sa.select(Run.name, Run.id).where(Run.session_id == session_id, Run.name.in_(some))
            )
            found.update((row.name, row.id) for row in rows)
        return found

    def _named(self, table: Any, wanted: dict[str, dict[str, Any]]) -> dict[str, int]:
        """The numbers of rows that have a key; those that are missing are made."""
        import sqlalchemy as sa

        known = self._ids[table]
        for some in _pieces([key for key in wanted if key not in known]):
            rows = self._connection.execute(sa.select(table.key, table.id).where(table.key.in_(some)))
            known.update((row.key, row.id) for row in rows)
        # In one order everywhere: two writers that wait for each other's rows would wait for ever.
        missing = sorted(key for key in wanted if key not in known)
        self._insert(table, [{"key": key, **wanted[key]} for key in missing])
        for some in _pieces(missing):
            rows = self._connection.execute(sa.select(table.key, table.id).where(table.key.in_(some)))
            known.update((row.key, row.id) for row in rows)
        return known

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        """Insert rows; one that is there already stays."""
        if self._connection.dialect.name == "sqlite":
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert
        for some in _pieces(rows):
            self._connection.execute(insert(table).on_conflict_do_nothing(), some)


_COLUMNS = (
    *("name", "spec", "verdict", "step", "message", "evidence", "expected", "same_as", "seconds", "ratio"),
    *("max_abs", "time", "born", "cause", "digest"),
)


def _pieces(items: Sequence[Any]) -> Iterable[list[Any]]:
    return (list(items[i : i + _MANY]) for i in range(0, len(items), _MANY))


def _series_key(run: RunIn) -> str:
    return key_of(run.model, run.layer, run.engine, run.random)


def _series(run: RunIn) -> dict[str, Any]:
    return {"model": run.model, "layer": run.layer, "engine": run.engine, "random": run.random}


def _complaint(run: RunIn) -> dict[str, dict[str, Any]]:
    if run.verdict not in ("FAIL", "ERROR"):
        return {}
    text = normalised(run.message.partition("\n")[0]) or run.kind
    return {key_of(run.kind, text): {"kind": run.kind[:60], "text": text}}


def _place_key(layer: LayerIn) -> str:
    return key_of(layer.tensor, layer.label, layer.source)


def _place(layer: LayerIn) -> dict[str, Any]:
    return {"tensor": layer.tensor, "label": layer.label, "source": layer.source}
