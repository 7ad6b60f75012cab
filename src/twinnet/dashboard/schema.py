"""The forms in which the API answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinnet.dashboard.queries.changes import Change
from twinnet.dashboard.queries.runs import LayerRow, RunRow
from twinnet.dashboard.queries.sessions import SessionRow
from twinnet.dashboard.queries.trends import Point, SeriesRow, band_of

__all__ = [
    "ChangeOut",
    "Comparison",
    "FileOut",
    "Files",
    "LayerOut",
    "Layers",
    "MadeToken",
    "Models",
    "NewToken",
    "Pin",
    "Problem",
    "RunOut",
    "RunWhole",
    "Runs",
    "SessionOut",
    "SessionWhole",
    "Sessions",
    "TokenOut",
    "TokensOut",
    "TrendOut",
    "Trends",
    "Uploaded",
    "UploadedCase",
]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


class UploadedCase(BaseModel):
    """A case of an upload."""

    name: str
    id: int
    url: str
    new: bool


class Uploaded(BaseModel):
    """The result of an upload."""

    session: int
    key: str
    url: str
    cases: list[UploadedCase]


class SessionOut(BaseModel):
    """A session."""

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

    @staticmethod
    def of(row: SessionRow) -> SessionOut:
        """From a row of the database."""
        return SessionOut(**asdict(row))


class SessionWhole(SessionOut):
    """A session with how it was run."""

    baseline: int | None
    command: list[str]
    environment: dict[str, str]


class Sessions(BaseModel):
    """A page of sessions."""

    items: list[SessionOut]
    next: int | None


class Pin(BaseModel):
    """Whether retention leaves a session alone."""

    model_config = ConfigDict(extra="forbid")
    pinned: bool


class RunOut(BaseModel):
    """A run: one case in one session. `ratio` is its worst error in units of the noise floor, `time` in seconds."""

    id: int
    session_id: int
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

    @staticmethod
    def of(row: RunRow) -> RunOut:
        """From a row of the database."""
        data = asdict(row)
        del data["series_id"]
        return RunOut(**data)


class RunWhole(RunOut):
    """A run with its answer in pieces; null if it did not get as far as a result."""

    answer: dict[str, Any] | None


class Runs(BaseModel):
    """A page of runs."""

    items: list[RunOut]
    next: int | None

    @staticmethod
    def of(rows: Sequence[RunRow], limit: int) -> Runs:
        """From rows of the database."""
        return Runs(items=[RunOut.of(r) for r in rows], next=rows[-1].id if len(rows) == limit else None)


class LayerOut(BaseModel):
    """A layer of a run. `ratio` is its born error in units of the noise floor, `allowed` the limit."""

    position: int
    tensor: str
    label: str
    source: str
    status: str
    ratio: float | None
    allowed: float | None
    relative: float | None
    time: float | None

    @staticmethod
    def of(row: LayerRow) -> LayerOut:
        """From a row of the database."""
        data = asdict(row)
        del data["place_id"]
        return LayerOut(**data)


class Layers(BaseModel):
    """A page of layers."""

    items: list[LayerOut]
    next: int | None


class FileOut(BaseModel):
    """A file of a run."""

    path: str
    size: int
    sha256: str


class Files(BaseModel):
    """A page of files."""

    items: list[FileOut]
    next: str | None


class Models(BaseModel):
    """A page of names of models."""

    items: list[str]
    next: str | None


class TrendPoint(BaseModel):
    """One session's value; `low` and `high` are the band of accuracy's noise, null where too little is known."""

    session: int
    run: int
    started: float
    verdict: str
    ratio: float | None
    time: float | None
    low: float | None
    high: float | None


class TrendOut(BaseModel):
    """A series over sessions, the oldest first; pass `next` as `before` for those before them.

    `left_accuracy` and `left_time` are the sessions where it left its band for the worse.
    """

    model: str
    layer: str
    engine: str
    points: list[TrendPoint]
    left_accuracy: list[int]
    left_time: list[int]
    next: int | None

    @staticmethod
    def of(series: SeriesRow, values: Sequence[Point], limit: int) -> TrendOut:
        """From values of the database."""
        accuracy = band_of([p.ratio for p in values], "ratio")
        speed = band_of([p.time for p in values], "time")
        points = [
            TrendPoint(
                session=p.session_id,
                run=p.run_id,
                started=p.started,
                verdict=p.verdict,
                ratio=p.ratio,
                time=p.time,
                low=low,
                high=high,
            )
            for p, low, high in zip(values, accuracy.low, accuracy.high, strict=True)
        ]
        return TrendOut(
            model=series.model,
            layer=series.layer,
            engine=series.engine,
            points=points,
            left_accuracy=[values[i].session_id for i in accuracy.marks],
            left_time=[values[i].session_id for i in speed.marks],
            next=values[0].session_id if len(values) == limit else None,
        )


class Trends(BaseModel):
    """The series of a model; pass `next` as `offset`."""

    items: list[TrendOut]
    next: int | None


class ChangeOut(BaseModel):
    """A case in two sessions; `accuracy` and `speed` are factors, above 1 for the worse.

    A case that was not run any more has no `run`. `place` is the layer that grew most, where no check names one.
    """

    model: str
    layer: str
    engine: str
    kind: str
    run: int | None
    verdict: str
    baseline_run: int | None
    baseline_verdict: str
    accuracy: float | None
    speed: float | None
    born: str
    cause: str
    place: str

    @staticmethod
    def of(row: Change) -> ChangeOut:
        """From a row of the database."""
        return ChangeOut(
            model=row.model,
            layer=row.layer,
            engine=row.engine,
            kind=row.kind,
            run=row.now,
            verdict=row.verdict,
            baseline_run=row.before,
            baseline_verdict=row.verdict_before,
            accuracy=row.accuracy,
            speed=row.speed,
            born=row.born,
            cause=row.cause,
            place=row.place,
        )


class Comparison(BaseModel):
    """A page of changes, the worst first; pass `next` as `offset`."""

    session: int
    baseline: int
    counts: dict[str, int]
    items: list[ChangeOut]
    next: int | None


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.@ -]+$")]
    scope: Literal["read", "upload", "admin"]


class MadeToken(BaseModel):
    """A token that was made."""

    name: str
    scope: str
    token: str


class TokenOut(BaseModel):
    """A token, without itself."""

    id: int
    name: str
    scope: str
    made: float
    used: float | None


class TokensOut(BaseModel):
    """A page of tokens."""

    items: list[TokenOut]
    next: int | None
