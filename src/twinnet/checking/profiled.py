"""A twin's times in the words of the network: what a profile needs to know from the two sides of a check."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from twinnet.cache import rebuilding
from twinnet.checking.case import Case, twin_name
from twinnet.checking.planning import Opened, open_both, plan_check
from twinnet.checking.sides import Sides
from twinnet.engines.base import Session
from twinnet.engines.spec import Spec
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays
from twinnet.layers.graph import Graph
from twinnet.pairing import Pairing
from twinnet.profile.building import CompileProfile, built
from twinnet.profile.cost import Shapes
from twinnet.profile.measure import Measured, Subject, needed_memory, profile_of
from twinnet.profile.pace import Pace, Pacemaker
from twinnet.profile.target import Target, machine
from twinnet.profile.turns import affordable, timed_in_turns
from twinnet.result import Cost
from twinnet.trace import DEFAULT_MEMORY, TraceBuilder

__all__ = ["built_case", "measured_cost", "open_subject", "pace_of", "subject_of", "target_of"]

_REPEATS, _ROUNDS = 20, 2


def open_subject(case: Case, sides: Sides) -> tuple[Session, Subject]:
    """Open both sides and pair them; where sites cannot be paired, names and modules have to do."""
    opened = open_both(case, sides)
    pairing, unpaired = None, ""
    try:
        plan, traces = plan_check(case, opened)
        for trace in traces:
            trace.close()
        pairing = plan.pairing
    except (EngineError, UsageError) as error:
        unpaired = error.what
    return opened.twin, replace(subject_of(case, opened, pairing), unpaired=unpaired)


def measured_cost(case: Case, opened: Opened, pairing: Pairing) -> tuple[Cost, Measured | None]:
    """What the twin of a check costs, and its profile; a twin that cannot be measured does not change the verdict."""
    subject, threads = subject_of(case, opened, pairing), case.options.limits.threads
    pacemaker = Pacemaker(threads)
    try:
        repeats = affordable(opened.twin, case.first, _REPEATS)
        (timed,) = timed_in_turns(
            [opened.twin], case.first, repeats=repeats, rounds=_ROUNDS, beside=pacemaker
        )
    except EngineError as error:
        return Cost(
            memory=needed_memory(opened.twin, subject), size=opened.twin.size, problem=error.what
        ), None
    target, pace = target_of(case), pace_of(case, pacemaker)
    made = profile_of(opened.twin, timed, subject, threads=threads, target=target, pace=pace)
    whole, cpu = made.profile.bare, made.profile.cpu
    cost = Cost(whole.p50, whole.p10, whole.p90, made.profile.memory, made.profile.size)
    return replace(cost, cpu=None if cpu is None else cpu.p50), made


def pace_of(case: Case, pacemaker: Pacemaker) -> Pace | None:
    """The pace of the machine that ran a twin; that of a board is not known."""
    return None if _on_a_board(case) else pacemaker.pace


def target_of(case: Case, stated: Target | None = None) -> Target | None:
    """What the machine of a twin can do: as stated, or this one measured; a board is not known."""
    return stated if stated is not None or _on_a_board(case) else machine(case.options.limits.threads)


def _on_a_board(case: Case) -> bool:
    return isinstance(case.twin, Spec) and bool(case.twin.on)


def built_case(case: Case, stack: ExitStack, target: Target) -> CompileProfile:
    """Open the twin of a case with everything built again, and each step timed."""
    sides = Sides(case)
    stack.callback(sides.close)
    net = sides.open_network()
    graph = net.graph()
    shapes = _shapes(net, graph, case.first, case.job.memory)
    timings = case.job.timings
    exported = timings.get("export", 0.0)
    timings.clear()
    with rebuilding():
        twin = sides.open_twin()
    if "export" in timings:
        timings["export"] += exported  # the network was opened first, and is exported once
    return built(twin, dict(timings), (case.network.name, str(case.twin)), graph, shapes, target)


def subject_of(case: Case, opened: Opened, pairing: Pairing | None) -> Subject:
    """The network as a profile sees it."""
    pairs = {} if pairing is None else {p.twin_site.tensor: p.site.tensor for p in pairing.pairs}
    net, twin = opened.net, opened.twin
    shown = twin.provenance
    known = {site.tensor for site in net.sites}
    for site in twin.sites:
        # A value may be there without being comparable; its name still says where it came from.
        origin = site.tensor if shown is None else shown.get(site.tensor, "")
        if opened.derived and origin in known:
            pairs.setdefault(site.tensor, origin)
    if opened.derived and shown is None:
        # A step may name a value of the network that the twin does not show.
        pairs = {**{name: name for name in known - {s.tensor for s in twin.sites}}, **pairs}
    return Subject(
        case.network.name,
        str(case.twin) if not callable(case.twin) else twin_name(case.twin),
        opened.graph,
        _shapes(net, opened.graph, case.first, case.job.memory),
        net.sites,
        pairs,
    )


def _shapes(net: Session, graph: Graph | None, sample: Arrays, memory: int | None) -> Shapes:
    """The shape of every value: as declared if all of it is known, else as a run shows it."""
    if graph is None:
        return {}
    found: dict[str, tuple[int, ...]] = {n: tuple(t.shape) for n, t in graph.constants.items()}
    found |= {n: tuple(a.shape) for n, a in _inputs(net, sample).items()}
    for name, shape in graph.shapes.items():
        if all(isinstance(size, int) for size in shape):
            found.setdefault(name, tuple(int(size) for size in shape))
    missing = {s.tensor for s in net.sites if s.tensor not in found}
    if missing and net.live:
        trace = net.trace(sample, missing, TraceBuilder(memory or DEFAULT_MEMORY))
        found |= {name: tuple(trace[name].shape) for name in missing if name in trace}
        trace.close()
    return found


def _inputs(net: Session, sample: Arrays) -> Arrays:
    return {graph_name: sample[name] for name, graph_name in net.inputs.items() if name in sample}
