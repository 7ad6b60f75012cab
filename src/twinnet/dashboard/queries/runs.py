"""Runs: the matrix of a session, its groups of failures, lists with filters, and one run with everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twinnet.dashboard.incoming import is_bad, kind_of
from twinnet.dashboard.models import Answer, Complaint, File, Layer, Place, Run, Series

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

__all__ = [
    "Cell",
    "Group",
    "LayerRow",
    "RunFilter",
    "RunRow",
    "answer_of",
    "files_of",
    "find_run",
    "groups",
    "layers_of",
    "matrix",
    "run_named",
    "runs",
]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as lists show it."""

    id: int
    session_id: int
    series_id: int
    name: str
    model: str
    layer: str
    engine: str
    spec: str
    verdict: str
    step: str
    message: str
    evidence: str
    expected: str
    same_as: str
    seconds: float
    ratio: float | None
    max_abs: float | None
    time: float | None
    born: str
    cause: str

    @property
    def kind(self) -> str:
        """FAIL, ERROR with its step, PASS or SKIP."""
        return kind_of(self.verdict, self.step)

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at it."""
        return is_bad(self.verdict, self.expected)


@dataclass(frozen=True, slots=True)
class Cell:
    """One model on one engine in a session: the full model, and how many layers passed."""

    model: str
    engine: str
    run_id: int | None
    verdict: str
    expected: str
    layers: int
    passed: int
    bad: int


@dataclass(frozen=True, slots=True)
class Group:
    """Failures with one message."""

    complaint_id: int
    kind: str
    text: str
    engine: str
    count: int
    first: int


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer of a run, in the order of the network."""

    position: int
    place_id: int
    tensor: str
    label: str
    source: str
    status: str
    ratio: float | None
    allowed: float | None
    relative: float | None
    time: float | None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs. An empty `layer` means whole models; `complaint_id` is a group of failures."""

    session_id: int | None = None
    model: str = ""
    engine: str = ""
    layer: str | None = None
    verdict: str = ""
    complaint_id: int | None = None
    ids: Sequence[int] | None = None


_SERIES = ("model", "layer", "engine")
_COLUMNS = [getattr(Series if n in _SERIES else Run, n) for n in RunRow.__dataclass_fields__]


def _select() -> Any:
    return sa.select(*_COLUMNS).join(Series, Run.series_id == Series.id)


def runs(connection: Connection, wanted: RunFilter, limit: int, before: int | None = None) -> list[RunRow]:
    """Runs, the last stored first; `before` is the id of the last one of the page before."""
    query = _select().order_by(Run.id.desc()).limit(limit)
    if wanted.session_id is not None:
        query = query.where(Run.session_id == wanted.session_id)
    if wanted.model or wanted.engine or wanted.layer is not None:
        which = sa.select(Series.id)
        if wanted.model:
            which = which.where(Series.model == wanted.model)
        if wanted.engine:
            which = which.where(Series.engine == wanted.engine)
        if wanted.layer is not None:
            which = which.where(Series.layer == wanted.layer)
        query = query.where(Run.series_id.in_(which))
    if wanted.verdict:
        query = query.where(Run.verdict == wanted.verdict)
    if wanted.complaint_id is not None:
        query = query.where(Run.complaint_id == wanted.complaint_id)
    if wanted.ids is not None:
        query = query.where(Run.id.in_(wanted.ids))
    if before is not None:
        query = query.where(Run.id < before)
    return [RunRow(*row) for row in connection.execute(query)]


def find_run(connection: Connection, run_id: int) -> RunRow | None:
    """A run by its number."""
    row = connection.execute(_select().where(Run.id == run_id)).first()
    return None if row is None else RunRow(*row)


def run_named(connection: Connection, session_id: int, name: str) -> RunRow | None:
    """A run by the name of its case."""
    row = connection.execute(_select().where(Run.session_id == session_id, Run.name == name)).first()
    return None if row is None else RunRow(*row)


def matrix(connection: Connection, session_id: int) -> list[Cell]:
    """Models against engines."""
    full, layer = Series.layer == "", Series.layer != ""

    def number(*what: Any) -> Any:
        return sa.func.sum(sa.case((sa.and_(*what), 1), else_=0))

    bad = sa.and_(Run.verdict.in_(("FAIL", "ERROR")), Run.expected != "yes")
    rows = connection.execute(
        sa.select(
            Series.model,
            Series.engine,
            sa.func.max(sa.case((full, Run.id))),
            sa.func.coalesce(sa.func.max(sa.case((full, Run.verdict))), ""),
            sa.func.coalesce(sa.func.max(sa.case((full, Run.expected))), ""),
            number(layer),
            number(layer, sa.or_(Run.verdict == "PASS", Run.same_as != "")),
            number(bad),
        )
        .join(Series, Run.series_id == Series.id)
        .where(Run.session_id == session_id)
        .group_by(Series.model, Series.engine)
        .order_by(Series.model, Series.engine)
    )
    return [Cell(*row) for row in rows]


def groups(connection: Connection, session_id: int, limit: int = 100) -> list[Group]:
    """Failures and errors of a session by their normalised message, the largest group first."""
    count = sa.func.count().label("count")
    rows = connection.execute(
        sa.select(Complaint.id, Complaint.kind, Complaint.text, Series.engine, count, sa.func.min(Run.id))
        .select_from(Run)
        .join(Complaint, Run.complaint_id == Complaint.id)
        .join(Series, Run.series_id == Series.id)
        .where(Run.session_id == session_id, Run.verdict.in_(("FAIL", "ERROR")))
        .group_by(Complaint.id, Complaint.kind, Complaint.text, Series.engine)
        .order_by(count.desc(), Complaint.id, Series.engine)
        .limit(limit)
    )
    return [Group(*row) for row in rows]


def layers_of(connection: Connection, run_id: int, limit: int = 20_000, after: int = -1) -> list[LayerRow]:
    """The layers of a run in the order of the network."""
    rows = connection.execute(
        sa.select(
            Layer.position,
            Layer.place_id,
            Place.tensor,
            Place.label,
            Place.source,
            Layer.status,
            Layer.ratio,
            Layer.allowed,
            Layer.relative,
            Layer.time,
        )
        .join(Place, Layer.place_id == Place.id)
        .where(Layer.run_id == run_id, Layer.position > after)
        .order_by(Layer.position)
        .limit(limit)
    )
    return [LayerRow(*row) for row in rows]


def files_of(connection: Connection, run_id: int, limit: int = 5000, after: str = "") -> list[Any]:
    """Path, size and digest of the files of a run."""
    return list(
        connection.execute(
            sa.select(File.path, File.size, File.digest)
            .where(File.run_id == run_id, File.path > after)
            .order_by(File.path)
            .limit(limit)
        )
    )


def answer_of(connection: Connection, run_id: int) -> dict[str, Any] | None:
    """The one-screen answer of a run in pieces, if it got as far as a result."""
    return connection.execute(sa.select(Answer.data).where(Answer.run_id == run_id)).scalar()
