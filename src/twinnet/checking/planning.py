"""Make the plan of a check: open both sides, run each as deployed and watched, pair their sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from twinnet.checking.by_hand import assumed, read_beside, turned_pairs, without_lone_guesses
from twinnet.checking.case import Case
from twinnet.checking.sides import Sides
from twinnet.checking.unfit import (
    inputs_hinted,
    refuse_empty,
    refuse_inputs,
    refuse_other,
    refuse_random,
    refuse_untold,
)
from twinnet.checking.unknown import names_of
from twinnet.checking.unpaired import nothing_pairs, write_names
from twinnet.engines.base import Session
from twinnet.errors import UsageError
from twinnet.importing import importing
from twinnet.job import Arrays
from twinnet.judge import guards
from twinnet.judge.aggregate import visible
from twinnet.judge.metrics import compare
from twinnet.judge.plan import Observed, OutputPair, Plan, Units, align_outputs, with_judge
from twinnet.layers.graph import Graph
from twinnet.pairing import BARE, Pair, Pairing, Side, pair_by_fingerprint, pair_sites, pairs_beside
from twinnet.pairing.quantised import is_quantised
from twinnet.pairing.transforms import candidates, from_pairs, nearest, turned_or_regrouped
from twinnet.result import Guard
from twinnet.site import Site
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

__all__ = ["Opened", "Traces", "open_both", "plan_check", "trace_both"]

Traces = tuple[Trace, Trace]
"""The watched tensors of one sample: the network's and the twin's."""


@dataclass(frozen=True)
class Opened:
    """Both sides open, with their unwatched outputs on the first sample."""

    net: Session
    twin: Session
    graph: Graph | None
    plain: dict[str, np.ndarray]
    twin_plain: dict[str, np.ndarray]
    outputs: tuple[OutputPair, ...]
    units: Units
    derived: bool


def open_both(case: Case, sides: Sides) -> Opened:
    """Open both sides and run each once; raises EngineError if a side cannot run or is a different network."""
    refuse_empty(case.first)
    # The canonical layers need PyTorch, and importing it takes longer than loading the engines: do both at once.
    with importing("torch") as waiting:
        net = sides.open_network()
        if waiting and case.options.level != "outputs" and not case.options.watch:
            sides.load_ahead(case.first)
    graph = net.graph()
    refuse_random("network", net, graph)
    # Torch modules learn their outputs' names from a first run.
    with inputs_hinted(case.network, case.first):
        plain = net.run(case.first)
    twin = sides.open_twin()
    refuse_random("twin", twin, None)
    refuse_inputs(twin, case.first)
    refuse_untold(twin, bool(case.tolerances))
    twin = sides.use_twin(read_beside(twin, net, case.first, plain, case.options.names or {}))
    twin_plain = twin.run(case.first)
    derived = sides.derived
    refuse_other(net, twin, None if derived else graph, plain, twin_plain)
    outputs = align_outputs(net, plain, twin, twin_plain)
    quantised = not is_quantised(graph) and is_quantised(_steps_of(twin, derived))
    units = Units.of(net.precision, twin.precision, quantised=quantised)
    return Opened(net, twin, graph, plain, twin_plain, outputs, units, derived)


def _steps_of(twin: Session, derived: bool) -> Graph | None:
    """The twin's layers if some may be quantised; else None, as reading those of a large file is slow."""
    if twin.artefact is None:
        return None if derived and not twin.precision.startswith("int") else twin.graph()
    from twinnet.onnx.graph import holds_steps

    return twin.graph() if holds_steps(twin.artefact.model) else None


def plan_check(case: Case, opened: Opened) -> tuple[Plan, Traces]:
    """Pair the sites, trace the first sample and settle the pairs by it; returns the plan and these traces."""
    paired = _pair(case, opened)
    # A twin made elsewhere may give a tensor any name: unpaired tensors are paired by their values.
    everything = not opened.derived and case.options.level != "outputs" and not case.options.watch
    search = everything and bool(paired.unmatched_twin)
    draft = with_judge(
        Plan(opened.net, opened.twin, opened.graph, paired, opened.outputs, opened.units, case.tolerances)
    )
    names_out = case.options.names_out
    watch_all = search or case.watch_all or names_out is not None
    traces = trace_both(case, draft, case.first, unmatched=watch_all)
    if opened.twin.by_hand:
        paired = turned_pairs(paired, *traces)
    known = opened.graph is not None and opened.twin.graph() is not None
    pairing = _settled(paired, *traces, known=known)
    if search:
        pairing = _searched(opened, pairing, traces)
    pairing = without_lone_guesses(opened.net, opened.twin, pairing, opened.plain)
    if names_out is not None:
        write_names(names_out, pairing, *traces)
    if not pairing.pairs:
        raise nothing_pairs(pairing, *traces, names_out)
    observed = _observe(case, opened, pairing, traces)
    said = assumed(opened.net, opened.twin, pairing, opened.plain)
    observed = replace(observed, guards=(*observed.guards, *said))
    return with_judge(replace(draft, pairing=pairing, observed=observed)), traces


def _searched(opened: Opened, pairing: Pairing, traces: Traces) -> Pairing:
    """With pairs that values show, and those that follow from these by structure."""
    inputs = _same_inputs(opened)
    graph, twin_graph = opened.graph, opened.twin.graph()
    while more := pair_by_fingerprint(pairing, *traces):
        pairing = pairing.extended(more)
        if graph is None or twin_graph is None:
            break
        found = replace(pairing, pairs=pairs_beside(pairing, graph, twin_graph, inputs))
        pairing = pairing.extended(_settled(found, *traces).pairs)
    return pairing


def _same_inputs(opened: Opened) -> list[tuple[str, str]]:
    net, twin = opened.net, opened.twin
    return [(ours, twin.inputs[name]) for name, ours in net.inputs.items() if name in twin.inputs]


def trace_both(case: Case, plan: Plan, sample: Arrays, *, unmatched: bool) -> Traces:
    """Run one sample on both sides and watch the tensors of all pairs; with `unmatched` also unpaired ones."""
    memory, pairing = case.job.memory or DEFAULT_MEMORY, plan.pairing
    watch = {p.site.tensor for p in pairing.pairs} | (plan.test.shape_values if plan.test else set())
    twin_watch = {p.twin_site.tensor for p in pairing.pairs}
    if unmatched:
        watch |= {s.tensor for s in pairing.unmatched}
        twin_watch |= {s.tensor for s in pairing.unmatched_twin}
    case.job.progress("running the network")
    trace = plan.net.trace(sample, watch, TraceBuilder(memory))
    case.job.progress("running the twin")
    return trace, plan.twin.trace(sample, twin_watch, TraceBuilder(memory))


# -- pairing ---------------------------------------------------------------------------------------------------------


def _pair(case: Case, opened: Opened) -> Pairing:
    net, twin, options = opened.net, opened.twin, case.options
    twin_graph = None if opened.derived and not opened.units.quantised else twin.graph()
    called = dict(zip(net.output_tensors, opened.plain, strict=False))
    sites = tuple(replace(s, output=called[s.tensor]) if s.tensor in called else s for s in net.sites)
    pairing = pair_sites(
        Side(sites, opened.graph, by_hand=net.by_hand),
        Side(twin.sites, twin_graph, twin.provenance, by_hand=twin.by_hand),
        # A twin converted from this network, or a recording of one, says where each value came from.
        derived=opened.derived,
        names=_by_tensor(options.names, opened),
        outputs=[(row.tensor, row.twin_tensor) for row in opened.outputs],
        inputs=_same_inputs(opened),
    )
    if options.level == "outputs" or twin.untold:
        wanted = set(net.output_tensors)
        pairing = pairing.without({p.site.tensor for p in pairing.pairs} - wanted)
    if options.watch or options.skip:
        drop = {p.site.tensor for p in pairing.pairs if not _watched(p.site, options.watch, options.skip)}
        if pairing.pairs and len(drop) == len(pairing.pairs):
            raise UsageError("--watch and --skip leave nothing to compare")
        pairing = pairing.without(drop)
    return pairing


def _by_tensor(names: Mapping[str, str] | None, opened: Opened) -> dict[str, str]:
    """The user's pairs, outputs and modules by their tensors' names."""
    sites = opened.net.sites
    own = {site.tensor for site in sites}
    ours = {site.module: site.tensor for site in sites if site.module and site.module not in own}
    ours |= dict(zip(opened.plain, opened.net.output_tensors, strict=False))
    theirs = {row.twin_name: row.twin_tensor for row in opened.outputs}
    return {ours.get(name, name): theirs.get(twin, twin) for name, twin in (names or {}).items()}


def _watched(site: Site, watch: Sequence[str], skip: Sequence[str]) -> bool:
    def fits(patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, p) for p in patterns for name in names_of(site))

    return site.role == "output" or ((not watch or fits(watch)) and not fits(skip))


def _settled(
    pairing: Pairing,
    trace: Mapping[str, np.ndarray],
    twin_trace: Mapping[str, np.ndarray],
    *,
    known: bool = False,
) -> Pairing:
    """Give pairs the transform their shapes need; guessed pairs that cannot be compared are dropped.

    Another grouping of the same numbers counts only where the layers of both sides are known, and what reads them is
    judged too.
    """
    kept: list[Pair] = []
    for pair in pairing.pairs:
        if pair.site.tensor not in trace or pair.twin_site.tensor not in twin_trace:
            continue
        ours, theirs = trace[pair.site.tensor], twin_trace[pair.twin_site.tensor]
        if np.iscomplexobj(ours) != np.iscomplexobj(theirs) and pair.how != "output":
            # ONNX stores complex numbers as pairs of reals. An output is part of the signature and must be the same.
            found = from_pairs(ours, theirs)
            if found is not None:
                kept.append(replace(pair, transform=found))
            elif pair.how == "stated":
                kept.append(pair)
            continue
        if pair.confidence == BARE and pair.transform.is_identity:
            turned = nearest(ours, theirs, candidates(ours.shape, theirs.shape))
            if turned is not None:
                kept.append(replace(pair, transform=turned))
            continue
        if ours.shape != theirs.shape and pair.transform.keeps_axes and pair.how not in ("output", "stated"):
            fitting = candidates(ours.shape, theirs.shape)
            if len(fitting) == 1:
                turn = turned_or_regrouped(fitting[0], ours, theirs) if known else fitting[0]
                own = replace(pair.transform, perm=turn.perm, shape=turn.shape, twin_shape=turn.twin_shape)
                pair = replace(pair, transform=own)
            elif pair.confidence < 1:
                continue
        kept.append(pair)
    return replace(pairing, pairs=tuple(kept))


# -- what watching and chance do -------------------------------------------------------------------------------------


def _observe(case: Case, opened: Opened, pairing: Pairing, traces: Traces) -> Observed:
    """Compare the watched run of the first sample with the one as deployed, on both sides."""
    trace, twin_trace = traces
    net, twin = opened.net, opened.twin
    observed = Observed()
    said, captured, _ = _against_plain("network", net, opened.plain, trace, case.first)
    if captured is not None:
        watched = {t: np.array(trace[t]) for t in net.output_tensors if t in trace}
        observed = replace(observed, watched=watched, guards=tuple(said))
    said, captured, spread = _against_plain("twin", twin, opened.twin_plain, twin_trace, case.first)
    if captured is not None:
        changed = any(
            visible(compare(a, b), opened.units.plain)
            for a, b in zip(opened.twin_plain.values(), captured, strict=False)
            if a.shape == b.shape
        )
        observed = replace(observed, as_deployed=not changed, guards=(*observed.guards, *said))
    if spread > 0:
        apart, varying = _spread_of(case, twin, pairing, twin_trace)
        observed = replace(observed, spread=apart, varying=varying)
    return observed


def _against_plain(
    side: str, session: Session, plain: Arrays, seen: Trace, sample: Arrays
) -> tuple[list[Guard], list[np.ndarray] | None, float]:
    """Guards, the watched outputs if they differ from the plain ones, and the spread between equal runs."""
    captured = [seen[t] for t in session.output_tensors if t in seen]
    same = len(captured) == len(plain) and all(
        guards.bit_equal(a, b) for a, b in zip(plain.values(), captured, strict=True)
    )
    if same:
        return [], None, 0.0
    # The tapped run differs from the plain one: a second plain run tells chance from observation.
    said, spread = guards.observer_or_chance(side, plain, session.run(sample), captured)
    return said, captured, spread


def _spread_of(
    case: Case, twin: Session, pairing: Pairing, seen: Trace
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """How far two equal runs of the twin are apart at each pair, and in which elements."""
    watch = {p.twin_site.tensor for p in pairing.pairs}
    again = twin.trace(case.first, watch, TraceBuilder(case.job.memory or DEFAULT_MEMORY))
    apart: dict[str, float] = {}
    varying: dict[str, np.ndarray] = {}
    for p in pairing.pairs:
        one, two = seen[p.twin_site.tensor], again[p.twin_site.tensor]
        far = guards.distance(one, two)
        if far > 0:
            apart[p.site.tensor] = far
            if one.shape == two.shape:
                varying[p.site.tensor] = p.transform.to_network(one != two)
    again.close()
    return apart, varying
