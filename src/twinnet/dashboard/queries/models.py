"""Models: which there are, how they stand, and the runs of one in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twinnet.dashboard.models import Run, Series, Session
from twinnet.dashboard.queries.runs import RunFilter, RunRow, runs

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

__all__ = ["engines_in", "last_runs", "models", "runs_in", "sessions_with"]


def models(connection: Connection, limit: int, after: str = "", text: str = "") -> list[str]:
    """Names of models in alphabetical order; `after` is the last one of the page before."""
    query = sa.select(Series.model).where(Series.model > after).distinct().order_by(Series.model).limit(limit)
    if text:
        query = query.where(Series.model.icontains(text, autoescape=True))
    return list(connection.execute(query).scalars())


def last_runs(connection: Connection, names: list[str]) -> list[RunRow]:
    """The last run of each of these models as a whole, on each engine."""
    newest = (
        sa.select(sa.func.max(Run.id))
        .join(Series, Run.series_id == Series.id)
        .where(Series.model.in_(names), Series.layer == "", sa.not_(Series.random))
        .group_by(Run.series_id)
    )
    ids = list(connection.execute(newest).scalars())
    return sorted(runs(connection, RunFilter(ids=ids), len(ids) or 1), key=lambda r: (r.model, r.engine))


def runs_in(connection: Connection, session_id: int, model: str) -> list[RunRow]:
    """The runs of a model in a session: the whole model and its layers."""
    return runs(connection, RunFilter(session_id, model), 5000)


def engines_in(connection: Connection, session_id: int, model: str = "") -> list[str]:
    """The engines of a session, or those of one model in it."""
    query: Any = (
        sa.select(Series.engine)
        .join(Run, Run.series_id == Series.id)
        .where(Run.session_id == session_id)
        .distinct()
        .order_by(Series.engine)
    )
    if model:
        query = query.where(Series.model == model)
    return list(connection.execute(query).scalars())


def sessions_with(connection: Connection, model: str) -> list[Any]:
    """The last hundred sessions in which a model ran: id, branch, commit, started."""
    series = list(
        connection.execute(
            sa.select(Series.id).where(Series.model == model).order_by(Series.layer).limit(60)
        ).scalars()
    )
    wanted = sa.exists().where(Run.session_id == Session.id, Run.series_id.in_(series))
    return list(
        connection.execute(
            sa.select(Session.id, Session.branch, Session.commit, Session.started, Session.made_by)
            .where(wanted)
            .order_by(Session.started.desc(), Session.id.desc())
            .limit(100)
        )
    )
