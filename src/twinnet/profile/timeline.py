"""The runs of a profile on a time axis: steps by thread, modules by level, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinnet.engines.timing import Timed
    from twinnet.profile.model import Profile, Row

__all__ = ["Counter", "Slice", "Timeline", "timeline_of"]

_RUNS = 5
"""Runs that a timeline shows; more say little and take long to draw."""
_PAUSE = 1e-4
"""Seconds between two runs."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that lasted: on a track, from `start` for `length`, both in nanoseconds."""

    track: str
    name: str
    start: int
    length: int
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counter:
    """A value at a time, in nanoseconds."""

    track: str
    time: int
    value: int


@dataclass(frozen=True)
class Timeline:
    """Slices and counters; `title` names the process they belong to."""

    title: str
    slices: tuple[Slice, ...]
    counters: tuple[Counter, ...] = ()

    @property
    def tracks(self) -> tuple[str, ...]:
        """The tracks of slices, in order."""
        return tuple(dict.fromkeys(s.track for s in self.slices))


@dataclass(frozen=True, slots=True)
class _Placed:
    row: Row
    run: int
    start: float
    seconds: float
    thread: int
    memory: int | None
    alive: int | None


def timeline_of(timed: Timed, profile: Profile, alive: Sequence[int | None] = ()) -> Timeline:
    """The first runs one after the other; steps of an engine that tells no starts follow each other.

    Memory is what the engine says is in use; if it says nothing, the bytes of the values `alive` during each step.
    """
    placed = list(_placed(timed, profile, alive or [None] * len(profile.rows)))
    order = {thread: n for n, thread in enumerate(dict.fromkeys(p.thread for p in placed))}
    slices = [
        Slice(f"thread {order[p.thread]}", p.row.name, _ns(p.start), _ns(p.seconds), _details(p.row))
        for p in placed
    ]
    slices += _levels(placed)
    counters = [
        Counter("memory in use", _ns(p.start + p.seconds), p.memory) for p in placed if p.memory is not None
    ]
    if not counters:
        by_shapes = (p for p in placed if p.alive is not None)
        counters = [Counter("values alive, by shapes", _ns(p.start), p.alive or 0) for p in by_shapes]
    title = f"{profile.network} on {profile.spec}"
    return Timeline(title, tuple(slices), tuple(counters))


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


def _placed(timed: Timed, profile: Profile, alive: Sequence[int | None]) -> Iterator[_Placed]:
    begun = 0.0
    for run in range(min(_RUNS, len(timed.whole))):
        spans = [
            (row, span, held)
            for row, step, held in zip(profile.rows, timed.steps, alive)
            for span in step.spans
            if span.run == run
        ]
        spans.sort(key=lambda one: one[1].start or 0.0)
        now = 0.0
        for row, span, held in spans:
            start = now if span.start is None else span.start
            yield _Placed(row, run, begun + start, span.seconds, span.thread, span.memory, held)
            now = max(now, start + span.seconds)
        begun += max(now, timed.whole[run]) + _PAUSE


def _details(row: Row) -> dict[str, Any]:
    told = {
        "op": row.op,
        "kernel": row.kernel,
        "network_ops": ", ".join(row.network_ops),
        "module": row.module,
        "source": row.source,
        "shape": row.shape,
        "flops": row.flops,
        "bytes": row.bytes,
        "limit": row.limit,
    }
    return {name: value for name, value in told.items() if value not in (None, "")}


def _levels(placed: Sequence[_Placed]) -> list[Slice]:
    """Modules, level by level: neighbouring steps of the same module are one slice."""
    deepest = max((len(_path(p.row)) for p in placed), default=0)
    slices: list[Slice] = []
    for level in range(deepest):
        open_: tuple[int, str, float, float] | None = None
        for p in [*placed, None]:
            path = () if p is None else _path(p.row)
            name = ".".join(path[: level + 1]) if len(path) > level else ""
            if open_ is not None and (p is None or (p.run, name) != open_[:2]):
                _, module, start, end = open_
                slices.append(Slice(f"modules, level {level + 1}", module, _ns(start), _ns(end - start)))
                open_ = None
            if p is not None and name:
                start = p.start if open_ is None else open_[2]
                open_ = (p.run, name, start, max(p.start + p.seconds, open_[3] if open_ else 0.0))
    return slices


def _path(row: Row) -> tuple[str, ...]:
    return tuple(row.module.split(".")) if row.module else ()
