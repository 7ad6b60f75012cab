"""Two sessions, or two engines of one, side by side: what became worse, what better."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from twinnet.dashboard.incoming import is_bad
from twinnet.dashboard.models import Layer, Place, Run, Series

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

__all__ = ["Change", "Changes", "Kind", "between_engines", "between_sessions", "placed"]

Kind = Literal[
    "new failure",
    "less accurate",
    "slower",
    "not run",
    "still failing",
    "fixed",
    "more accurate",
    "faster",
    "same",
]

_WORSE: tuple[Kind, ...] = ("new failure", "less accurate", "slower")
_ORDER: tuple[Kind, ...] = (
    *("new failure", "less accurate", "slower", "not run", "still failing"),
    *("fixed", "more accurate", "faster", "same"),
)
_RATIO, _TIME = 4.0, 1.25
"""Accuracy counts as changed from this factor on, and times from this one: below is noise."""
_LOOKED = 50
_FLOOR = 1.0
"""Errors below one unit of the noise floor are all alike."""


@dataclass(frozen=True, slots=True)
class Change:
    """A case on both sides; a side without it has no run and no verdict.

    `place` is the layer that grew most where the case as a whole says no more than that it did, and
    `place_before` and `place_now` what it grew from and to.
    """

    model: str
    layer: str
    engine: str
    now: int | None
    verdict: str
    expected: str
    same_as: str
    ratio: float | None
    time: float | None
    born: str
    cause: str
    message: str
    before: int | None
    verdict_before: str
    expected_before: str
    ratio_before: float | None
    time_before: float | None
    place: str = ""
    place_before: float | None = None
    place_now: float | None = None

    @property
    def kind(self) -> Kind:
        """What became of it."""
        skipped = self.verdict in ("", "SKIP") and not self.same_as
        if skipped and self.verdict_before in ("PASS", "FAIL", "ERROR"):
            return "not run"
        bad, was_bad = is_bad(self.verdict, self.expected), is_bad(self.verdict_before, self.expected_before)
        if bad:
            return "still failing" if was_bad else "new failure"
        if was_bad and self.verdict == "PASS":
            return "fixed"
        accuracy = self.accuracy
        if accuracy is not None and not 1 / _RATIO < accuracy < _RATIO:
            return "less accurate" if accuracy > 1 else "more accurate"
        speed = self.speed
        if speed is not None and not 1 / _TIME < speed < _TIME:
            return "slower" if speed > 1 else "faster"
        return "same"

    @property
    def accuracy(self) -> float | None:
        """How many times larger the error is than before."""
        if self.ratio is None or self.ratio_before is None:
            return None
        return max(self.ratio, _FLOOR) / max(self.ratio_before, _FLOOR)

    @property
    def speed(self) -> float | None:
        """How many times longer it takes than before."""
        if not self.time or not self.time_before:
            return None
        return self.time / self.time_before

    @property
    def worse(self) -> bool:
        """Whether it became worse."""
        return self.kind in _WORSE

    @property
    def size(self) -> float:
        """How much changed, for sorting."""
        return abs(math.log(self.accuracy or 1.0)) + abs(math.log(self.speed or 1.0))


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes, the worst first."""

    rows: tuple[Change, ...]

    def of(self, *kinds: Kind) -> list[Change]:
        """The changes of some kinds."""
        return [row for row in self.rows if row.kind in kinds]

    @property
    def counts(self) -> dict[Kind, int]:
        """How many there are of each kind."""
        found: dict[Kind, int] = {}
        for row in self.rows:
            found[row.kind] = found.get(row.kind, 0) + 1
        return {kind: found[kind] for kind in _ORDER if kind in found}


def between_sessions(connection: Connection, now: int, before: int) -> Changes:
    """Every case of a session beside the same case of another, and the cases that only the other has."""
    one, other = aliased(Run), aliased(Run)
    query = _columns(one, other, Series).join(Series, one.series_id == Series.id)
    query = query.outerjoin(other, sa.and_(other.session_id == before, other.series_id == one.series_id))
    rows = [Change(*row) for row in connection.execute(query.where(one.session_id == now))]
    there = sa.select(Run.series_id).where(Run.session_id == now)
    gone = connection.execute(
        sa.select(Series.model, Series.layer, Series.engine, other.id, other.verdict, other.expected)
        .select_from(other)
        .join(Series, other.series_id == Series.id)
        .where(
            other.session_id == before,
            other.verdict != "SKIP",
            sa.not_(Series.random),
            other.series_id.not_in(there),
        )
    )
    for model, layer, engine, run, verdict, known in gone:
        nothing = ("", "", "", None, None, "", "", "")
        rows.append(Change(model, layer, engine, None, *nothing, run, verdict, known, None, None))
    return _sorted(rows)


def placed(connection: Connection, rows: Iterable[Change]) -> list[Change]:
    """Changes with the layer that made them, where no check has named one: what grew most inside the network.

    Only the first and worst are looked into, so that a session in which everything is slower has a page in time.
    """
    found = []
    left = _LOOKED
    for row in rows:
        what = {"slower": "time", "less accurate": "ratio"}.get(row.kind, "")
        if what and not row.born and left:
            row, left = _placed(connection, row, what), left - 1
        found.append(row)
    return found


def _placed(connection: Connection, row: Change, what: str) -> Change:
    one, other = aliased(Layer), aliased(Layer)
    now, before = getattr(one, what), getattr(other, what)
    grew = now - before if what == "time" else now / sa.case((before < _FLOOR, _FLOOR), else_=before)
    worst = connection.execute(
        sa.select(Place.label, before, now)
        .select_from(one)
        .join(other, sa.and_(other.run_id == row.before, other.place_id == one.place_id))
        .join(Place, one.place_id == Place.id)
        .where(one.run_id == row.now, now > before)
        .order_by(grew.desc(), one.position)
        .limit(1)
    ).first()
    if worst is None:
        return row
    return replace(row, place=worst[0], place_before=worst[1], place_now=worst[2])


def between_engines(connection: Connection, session_id: int, engine: str, other_engine: str) -> Changes:
    """Every model and layer on one engine beside another of the same session; `before` is the other engine."""
    one, other, mine, theirs = aliased(Run), aliased(Run), aliased(Series), aliased(Series)
    query = (
        _columns(one, other, mine)
        .join(mine, one.series_id == mine.id)
        .join(
            theirs,
            sa.and_(
                theirs.model == mine.model,
                theirs.layer == mine.layer,
                theirs.random == mine.random,
                theirs.engine == other_engine,
            ),
        )
        .join(other, sa.and_(other.session_id == session_id, other.series_id == theirs.id))
    )
    query = query.where(one.session_id == session_id, mine.engine == engine)
    return _sorted([Change(*row) for row in connection.execute(query)])


def _columns(one: Any, other: Any, series: Any) -> Any:
    return sa.select(
        series.model,
        series.layer,
        series.engine,
        one.id,
        one.verdict,
        one.expected,
        one.same_as,
        one.ratio,
        one.time,
        one.born,
        one.cause,
        one.message,
        other.id,
        sa.func.coalesce(other.verdict, ""),
        sa.func.coalesce(other.expected, ""),
        other.ratio,
        other.time,
    ).select_from(one)


def _sorted(rows: list[Change]) -> Changes:
    # The whole model before its layers: it is what people ship.
    rows.sort(key=lambda row: (_ORDER.index(row.kind), row.layer != "", -row.size, row.model, row.engine))
    return Changes(tuple(rows))
