"""The profile of a twin that was timed: its steps joined to the network, and what limits each."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twinnet.engines.timing import Timed, undisturbed
from twinnet.layers.graph import Graph, Layer
from twinnet.profile.cost import Shapes, float_width, flops, moved_bytes
from twinnet.profile.join import Joined, Joiner
from twinnet.profile.memory import alive_bytes, least_memory
from twinnet.profile.model import Limit, Profile, Quantiles, Row
from twinnet.profile.noise import low
from twinnet.profile.pace import Pace
from twinnet.profile.target import Target
from twinnet.profile.timeline import Timeline, timeline_of
from twinnet.signature import dims

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.site import Site

__all__ = ["Measured", "Subject", "needed_memory", "profile_of"]

_SLOW = 8.0
"""A step that takes this many times what arithmetic and bandwidth allow, and hardly computes, is overhead."""
_SMALL, _STEP = 20, 1e-6
"""... and that lasts less than so many overheads of a step, or could be done within one; an overhead is no less than
a microsecond."""
_FAST = 8.0
"""One that only moves values, and is this many times faster than bandwidth allows, moves none: it makes a view."""
_WAITED = 0.7
"""Runs whose CPU time is less than this part of their time waited for their turn."""


@dataclass(frozen=True)
class Subject:
    """What is measured, in the words of the network: its layers, the shapes of its values, its sites, and `pairs` from
    values of the twin to those of the network; `unpaired` says why they could not be paired by their values."""

    network: str
    spec: str
    graph: Graph | None
    shapes: Shapes
    sites: Sequence[Site]
    pairs: Mapping[str, str]
    unpaired: str = ""


@dataclass(frozen=True)
class Measured:
    """A profile, and the timeline of its runs."""

    profile: Profile
    timeline: Timeline


def profile_of(
    session: Session,
    timed: Timed,
    subject: Subject,
    *,
    threads: int | None = None,
    target: Target | None = None,
    pace: Pace | None = None,
) -> Measured:
    """The profile of a session that was timed.

    Args:
        session: The twin, open.
        timed: Its times on one sample.
        subject: The network, to which the steps are joined.
        threads: Threads of the engine.
        target: What the machine can do; None if that is not known, as of a board.
        pace: How fast this machine was meanwhile.
    """
    joined = Joiner(subject.graph, subject.pairs, session.graph()).join(timed.steps)
    width = float_width(session.precision)
    known = {site.tensor: site for site in subject.sites}
    own = {site.tensor: site for site in session.sites}
    rows = [_row(one, subject, target, width, known, own) for one in joined]
    total, gap, looking = sum(row.p50 for row in rows), _gap(timed), _looking(timed)
    inside = 1.0 if timed.alone else 1 - max(gap, 0.0)
    rows = [replace(row, share=inside * row.p50 / total if total else 0.0) for row in rows]
    whole, bare = Quantiles.of(timed.whole), Quantiles.of(timed.bare)
    outside = [row for row in rows if not row.sites]
    profile = Profile(
        network=subject.network,
        spec=subject.spec,
        engine=session.engine,
        version=session.version,
        repeats=len(timed.whole),
        whole=whole,
        bare=bare,
        overhead=looking,
        gap=gap,
        joined=1 - sum(row.p50 for row in outside) / total if total else 0.0,
        rows=tuple(rows),
        target=target,
        rest=tuple(row.name for row in sorted(outside, key=lambda r: -r.p50)),
        alone=timed.alone,
        timer=statistics.fmean(step.timer for step in timed.steps) if timed.steps else 0.0,
        cpu=Quantiles.of(timed.cpu) if timed.cpu else None,
        memory=needed_memory(session, subject),
        size=session.size,
        threads=threads,
        loading=timed.loading,
        runs=timed.whole,
        bare_runs=timed.bare,
        cpu_runs=timed.cpu,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        pace=pace,
        unpaired=subject.unpaired,
    )
    return Measured(profile, timeline_of(timed, profile, _alive(joined, subject, width)))


def needed_memory(session: Session, subject: Subject) -> int | None:
    """The bytes that weights and values of a twin take at least; None if its layers are not known."""
    return least_memory(subject.graph, subject.shapes, float_width(session.precision))


def _alive(joined: Sequence[Joined], subject: Subject, width: int) -> list[int | None]:
    """Bytes of the values alive during each step; None where its layers are not known."""
    graph = subject.graph
    if graph is None or not subject.shapes:
        return [None] * len(joined)
    every = alive_bytes(graph, subject.shapes, width)
    places = {id(layer): index for index, layer in enumerate(graph.layers)}
    return [max((every[places[id(layer)]] for layer in one.layers), default=None) for one in joined]


def _looking(timed: Timed) -> float:
    """How much longer runs with timers take: by CPU time where it is known, which other work does not lengthen."""
    with_timers, without = (timed.looked_cpu, timed.cpu) if timed.looked_cpu else (timed.whole, timed.bare)
    return low(with_timers) / low(without) - 1 if low(without) > 0 else 0.0


def _cost_of_looking(timed: Timed) -> float:
    """Seconds that the timers add to a run."""
    more = _looking(timed)
    by_clock = low(timed.whole) * more / (1 + more)
    # The CPU time of several threads is longer than the run; a run that waits for its turn is longer than its CPU time.
    by_cpu = low(timed.looked_cpu) - low(timed.cpu) if timed.looked_cpu else by_clock
    return max(0.0, min(by_clock, by_cpu))


def _gap(timed: Timed) -> float:
    """The share of a run without timers that no step accounts for.

    Run by run, as whatever disturbs a run disturbs its steps as well; what the timers cost is taken off both. Where
    runs waited for their turn, the wait is in the steps only by chance: then the least disturbed times of both count,
    unless the steps are so long that each of them waited in every run.

    >>> from twinnet.engines.timing import LayerTime, Span
    >>> steps = tuple(LayerTime(n, "Add", (Span(0, 5e-3), Span(1, 5e-3)), timer=1e-3) for n in "ab")
    >>> round(_gap(Timed(steps, (13e-3, 13e-3), (10e-3, 10e-3), (10e-3, 10e-3), looked_cpu=(13e-3, 13e-3))), 3)
    0.2
    """
    if timed.alone:
        return _least_disturbed(timed)
    total = [0.0] * len(timed.whole)
    for step in timed.steps:
        for span in step.spans:
            total[span.run] += max(span.seconds - step.timer, 0.0)
    cost = _cost_of_looking(timed)
    shares = [1 - parts / (whole - cost) for parts, whole in zip(total, timed.whole) if whole > cost]
    by_run = statistics.median(shares) if shares else 0.0
    if timed.cpu and low(timed.cpu) < _WAITED * low(timed.bare):
        least = _least_disturbed(timed)
        return least if least >= 0 else max(least, by_run)
    return by_run


def _least_disturbed(timed: Timed) -> float:
    whole = low(undisturbed(timed.bare, timed.cpu))
    return 1 - sum(low(step.per_run) for step in timed.steps) / whole if whole else 0.0


def _row(
    one: Joined,
    subject: Subject,
    target: Target | None,
    width: int,
    known: Mapping[str, Site],
    own: Mapping[str, Site],
) -> Row:
    step, layers = one.step, one.layers
    spent = Quantiles.of(step.per_run)
    main = max(layers, key=lambda layer: flops(layer, subject.shapes) or 0, default=None)
    modules = tuple(dict.fromkeys(layer.module for layer in layers if layer.module))
    module, source = (main.module, main.source) if main is not None else ("", "")
    # Without layers, sites still say where they are.
    told = [known[n] for n in one.sites if n in known] or [own[t] for t in step.tensors if t in own]
    module = module or next((site.module for site in told if site.module), "")
    source = source or next((site.source for site in told if site.source), "")
    work, moved = (None, None) if one.helps else _cost(layers, subject, width)
    limit, efficiency = _limit(work, moved, spent.p50, target)
    return Row(
        name=step.name,
        op=step.op,
        kernel=step.kernel,
        network_ops=tuple(layer.op or layer.kind for layer in layers) or _ops(told),
        sites=one.sites or tuple(site.tensor for site in told if site.tensor in known),
        module=module,
        modules=modules or ((module,) if module else ()),
        source=source,
        shape=_shape(one, subject.shapes),
        calls=step.calls,
        p10=spent.p10,
        p50=spent.p50,
        p90=spent.p90,
        bytes=moved,
        flops=work,
        intensity=work / moved if work is not None and moved else None,
        limit=limit,
        efficiency=efficiency,
        helps=one.helps,
        seconds=step.per_run,
    )


def _ops(sites: Sequence[Site]) -> tuple[str, ...]:
    return tuple(site.op for site in sites if site.op)


def _shape(one: Joined, shapes: Shapes) -> str:
    found = [shapes[n] for n in one.sites if n in shapes]
    return dims(found[0]) if found else ""


def _cost(layers: Sequence[Layer], subject: Subject, width: int) -> tuple[int | None, int | None]:
    if not layers or subject.graph is None:
        return None, None
    counted = [flops(layer, subject.shapes) for layer in layers]
    known = [count for count in counted if count is not None]
    moved = moved_bytes(subject.graph, layers, subject.shapes, width)
    return (sum(known) if known else None), moved


def _limit(
    work: int | None, moved: int | None, seconds: float, target: Target | None
) -> tuple[Limit, float | None]:
    """What bounds a step, and how near it comes to that bound.

    >>> board = Target("t", 1e10, 1e10)
    >>> _limit(1000, 4_000_000, 1e-3, board), _limit(1000, 5000, 5e-5, board)[0], _limit(0, 4_000_000, 1e-6, board)
    (('memory', 0.4), 'overhead', ('overhead', None))
    """
    if work is None or moved is None or seconds <= 0 or target is None:
        return "", None
    best = max(work / target.peak, moved / target.bandwidth)
    efficiency = best / seconds
    if best == 0 or (work == 0 and efficiency > _FAST):
        return "overhead", None
    least = max(target.overhead, _STEP)
    if efficiency * _SLOW < 1 and (best < least or seconds < _SMALL * least):
        return "overhead", efficiency
    bound: Limit = "compute" if work / target.peak > moved / target.bandwidth else "memory"
    return bound, efficiency if math.isfinite(efficiency) else None
