"""One check from beginning to end: open both sides, pair, run, judge every pair, listen to the guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.engines import Spec
from twinnet.engines.base import Session
from twinnet.engines.meaning import SiteJudge
from twinnet.engines.spec import file_name
from twinnet.errors import EngineError, UsageError
from twinnet.importing import importing
from twinnet.job import Job
from twinnet.judge import guards
from twinnet.judge.again import restated
from twinnet.judge.aggregate import merge, visible
from twinnet.judge.conclusion import Conclusion
from twinnet.judge.keep import Keeper
from twinnet.judge.metrics import compare
from twinnet.judge.other import refuse_inputs, refuse_other
from twinnet.judge.seen import Seen, judge_sample
from twinnet.judge.sides import OutputPair, Sides, align_outputs, refuse_random
from twinnet.judge.task import load_metric, task_metric
from twinnet.judge.tolerance import Tolerance, Tolerances, read_rules
from twinnet.layers.graph import Graph
from twinnet.pairing import Pair, Pairing, pair_by_fingerprint, pair_sites
from twinnet.pairing.quantised import is_quantised
from twinnet.pairing.transforms import candidates, from_pairs
from twinnet.precision import UNITS, coarser, unit_of
from twinnet.result import Cause, Guard, PairResult, Result, TaskMetric
from twinnet.site import Site
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

__all__ = ["Judgement"]


class Judgement:
    """The state of one check.

    `keeper` holds what is kept of the samples when they are judged. `listeners` are told of each judged sample while
    its tensors are there.
    """

    def __init__(self, network: Any, feed: Any, reference: Spec | Session, twin: Any, settings: Any) -> None:
        self.network = network
        self.feed = feed
        self.settings = settings
        self.timings: dict[str, float] = {}
        self.keeper = Keeper(self)
        self.listeners: list[Callable[[Sequence[PairResult], Seen], None]] = []
        self.by_network = False
        # Also the tensors that have no partner.
        self.watch_all = False
        # The layers that tell who inherits from whom: the network's, or those of its own judge.
        self.lineage: Graph | None = None
        # Whether the twin computes in a coarser format than the network: its small errors are then ranked.
        self.narrow = False
        self.quantised = False
        # Inputs that the twin prepares otherwise, by tensor: name, both arrays, cause and evidence.
        self.inputs_found: dict[str, tuple[str, np.ndarray, np.ndarray, Cause | None, str]] = {}
        # A metric that cannot be loaded is said before anything has run.
        self._metric = load_metric(settings.metric)
        self.scores: list[TaskMetric] = []
        self.plain_unit = UNITS["float32"]
        self.aligned: list[OutputPair] = []
        # The network's outputs as the watched run gave them, where that is not what it gives unwatched.
        self.watched: dict[str, np.ndarray] = {}
        # Whether watching leaves the twin's outputs about what they are.
        self.as_deployed = True
        # How far two equal runs of the twin are apart, by network tensor; empty for a deterministic twin.
        self.spread: dict[str, float] = {}
        self.varying: dict[str, np.ndarray] = {}
        # Samples are made when asked for; the first is asked for often.
        self.first: Mapping[str, np.ndarray] = feed.samples[0]
        flags = Tolerance(
            settings.rtol, settings.atol, settings.ulp, settings.snr, settings.psnr, settings.cosine
        )
        rules = read_rules(settings.tolerance_file) if settings.tolerance_file else ()
        self.tolerances = Tolerances.of(flags, rules)
        self.job = Job(
            inputs=self.first,
            samples=feed.samples,
            threads=settings.threads,
            time_limit=settings.time_limit,
            memory=settings.memory,
            ir_folder=_ir_folder(settings.debug_ir, network, twin),
            timings=self.timings,
            progress=lambda step: settings.progress(step, None),
        )
        self.sides = Sides(network, reference, twin, self.job)

    # -- the check -----------------------------------------------------------------------------------------------

    def result(self) -> Result:
        """Run everything. EngineError means verdict ERROR and is left to the caller."""
        # The canonical layers need PyTorch, and it takes longer to import than the engines take to load: both at once.
        with importing("torch") as waiting:
            net = self.sides.open_network()
            if waiting and self.settings.level != "outputs" and not self.settings.watch:
                self.sides.load_ahead(self.first)
        graph = net.graph()
        refuse_random("network", net, graph)
        # Torch modules learn their outputs' names from a first run.
        plain = net.run(self.first)
        twin = self.sides.open_twin()
        refuse_random("twin", twin, None)
        refuse_inputs(twin, self.first)
        twin_plain = twin.run(self.first)
        refuse_other(net, twin, None if self.sides.derived else graph, plain, twin_plain)
        self.aligned = align_outputs(net, plain, twin, twin_plain)
        self.quantised = not is_quantised(graph) and is_quantised(self._steps_of(twin, self.sides.derived))
        pairing = self._pair(net, twin, graph)
        unit = UNITS.get(twin.precision, UNITS["float32"])
        self.narrow = self.quantised or unit > UNITS.get(net.precision, UNITS["float32"])
        # What a segment creates is measured at the twin's precision; end to end the coarser side shows as well.
        self.plain_unit = UNITS.get(coarser(net.precision, twin.precision), UNITS["float32"])
        if self.quantised:
            self.plain_unit = max(self.plain_unit, unit_of("int8"))
        results: dict[str, PairResult] = {}
        found: list[Guard] = [Guard("note", n) for n in (*self.feed.notes, *net.notes, *twin.notes)]
        if self.job.ir_folder is not None and not self.job.ir_folder.exists():
            found.append(Guard("note", f"{twin.engine} has no intermediate representation to write"))
        outputs_seen: list[dict[str, np.ndarray]] = [plain]
        self._score(self.first, plain, twin_plain)
        for number in range(len(self.feed.samples)):
            sample = self.first if number == 0 else self.feed.samples[number]
            self.settings.progress(f"sample {number + 1} of {len(self.feed.samples)}", None)
            trace, twin_trace, pairing = self._traces(net, twin, graph, pairing, sample, first=number == 0)
            if number == 0:
                found += self._observe(net, twin, plain, twin_plain, trace, twin_trace, sample, pairing)
                ours = plain
            else:
                ours = {
                    n: np.array(trace[t])
                    for n, t in zip(plain, net.output_tensors, strict=False)
                    if t in trace
                }
                outputs_seen.append(ours)
                theirs = {row.twin_name: twin_trace[row.twin_tensor] for row in self.aligned}
                self._score(sample, ours, theirs)
            test = self._test(graph, pairing, unit)
            prepared = self._prepared(net, twin, sample, number)
            seen = Seen(number, sample, trace, twin_trace, pairing, graph, test, unit, prepared)
            judged = judge_sample(self, seen)
            for pair in judged:
                before = results.get(pair.site.tensor)
                results[pair.site.tensor] = pair if before is None else merge(before, pair)
            self.keeper.add(judged, seen)
            for listener in self.listeners:
                listener(judged, seen)
            self._done(seen, judged)
        found += [Guard("note", n) for n in self.keeper.notes]
        ordered = [results[p.site.tensor] for p in pairing.pairs]
        if self.tolerances:
            # Once more by the worst figures of all samples, so that judging the run again says the same.
            ordered = [restated(p, self.tolerances) for p in ordered]
        conclusion = Conclusion(self, net, twin, graph, pairing, ordered, plain, twin_plain, outputs_seen)
        return conclusion.result(found)

    def _prepared(
        self, net: Session, twin: Session, sample: Mapping[str, np.ndarray], number: int
    ) -> dict[str, np.ndarray]:
        """Inputs that the twin prepared otherwise: compared before anything else, since all the rest inherits it."""
        from twinnet.judge.inputs import input_cause, inputs_differ

        shown = {n: np.asarray(a) for n, a in twin.prepared(sample).items() if n in sample}
        found = {n: a for n, a in shown.items() if inputs_differ(np.asarray(sample[n]), a)}
        for name, array in found.items():
            tensor, ours = net.inputs.get(name, name), np.asarray(sample[name])
            if tensor not in self.inputs_found:
                # Where a sample was a picture, it can be resized again in other ways.
                resized = getattr(self.feed.samples, "resized", None)
                others = resized(number, name) if resized is not None else ()
                self.inputs_found[tensor] = (name, ours, array, *input_cause(name, ours, array, others))
        return found

    def _done(self, seen: Seen, judged: Sequence[PairResult]) -> None:
        """A sample is judged: its tensors go."""
        seen.trace.close()
        seen.twin_trace.close()

    def close(self) -> None:
        """Free both sessions."""
        self.sides.close()

    def _pair(self, net: Session, twin: Session, graph: Graph | None) -> Pairing:
        settings = self.settings
        # A twin that was converted from this network, or replays one that was, says where each value came from.
        derived = self.sides.derived
        outputs = [(row.tensor, row.twin_tensor) for row in self.aligned]
        inputs = [(ours, twin.inputs[name]) for name, ours in net.inputs.items() if name in twin.inputs]
        pairing = pair_sites(
            net.sites,
            twin.sites,
            derived=derived,
            provenance=twin.provenance,
            names=settings.names,
            graph=graph,
            twin_graph=None if derived and not self.quantised else twin.graph(),
            outputs=outputs,
            inputs=inputs,
        )
        if settings.level == "outputs":
            wanted = set(net.output_tensors)
            pairing = pairing.without({p.site.tensor for p in pairing.pairs} - wanted)
        if settings.watch or settings.skip:
            drop = {p.site.tensor for p in pairing.pairs if not self._watched(p.site)}
            if len(drop) == len(pairing.pairs):
                raise UsageError("--watch and --skip leave no site to compare")
            pairing = pairing.without(drop)
        if not pairing.pairs:
            raise EngineError("no site of the twin could be paired with the network", stage="pair")
        return pairing

    @staticmethod
    def _steps_of(twin: Session, derived: bool) -> Graph | None:
        """The twin's layers where some may be quantised; reading those of a large file takes its time."""
        if twin.artefact is None:
            return None if derived else twin.graph()
        from twinnet.onnx.graph import holds_steps

        return twin.graph() if holds_steps(twin.artefact.model) else None

    def _watched(self, site: Site) -> bool:
        def fits(patterns: Sequence[str]) -> bool:
            return any(
                fnmatchcase(v, p) for p in patterns for v in (site.tensor, site.module, site.op, site.label)
            )

        if site.role == "output":
            return True
        return (not self.settings.watch or fits(self.settings.watch)) and not fits(self.settings.skip)

    def _traces(
        self,
        net: Session,
        twin: Session,
        graph: Graph | None,
        pairing: Pairing,
        sample: Mapping[str, np.ndarray],
        *,
        first: bool,
    ) -> tuple[Trace, Trace, Pairing]:
        memory = self.settings.memory or DEFAULT_MEMORY
        search = first and bool(pairing.unmatched_twin) and self._may_search(twin)
        watch = {p.site.tensor for p in pairing.pairs}
        twin_watch = {p.twin_site.tensor for p in pairing.pairs}
        if search or self.watch_all:
            watch |= {s.tensor for s in pairing.unmatched}
            twin_watch |= {s.tensor for s in pairing.unmatched_twin}
        test = self._test(graph, pairing, 1.0)
        if test is not None:
            watch |= test.shape_values
        self.settings.progress("running the network", None)
        trace = net.trace(sample, watch, TraceBuilder(memory))
        self.settings.progress("running the twin", None)
        twin_trace = twin.trace(sample, twin_watch, TraceBuilder(memory))
        if first:
            pairing = _settled(pairing, trace, twin_trace)
        if search:
            pairing = pairing.extended(pair_by_fingerprint(pairing, trace, twin_trace))
        return trace, twin_trace, pairing

    def _test(self, graph: Graph | None, pairing: Pairing, unit: float) -> SiteJudge | None:
        """Who judges the sites: the network itself where it knows better, else its canonical layers, else nobody."""
        net, twin = self.sides.net, self.sides.twin
        assert net is not None and twin is not None
        own = None if net.meaning is None else net.meaning.judge(pairing.pairs, twin)
        self.by_network = own is not None
        self.lineage = graph if own is None else own.graph
        if own is not None or graph is None:
            return own
        # torch comes in with the layers; two recordings are compared without either.
        from twinnet.judge.born import BornTest

        names = {tensor: name for name, tensor in net.inputs.items()}
        observable = {s.tensor for s in pairing.sites}
        declared = None
        if self.quantised:
            from twinnet.judge.declared import Declared

            theirs = twin.graph()
            assert theirs is not None
            inputs = {twin.inputs[n]: t for n, t in net.inputs.items() if n in twin.inputs}
            declared = Declared(graph, theirs, pairing.pairs, inputs)
        return BornTest(
            graph,
            pairing.pairs,
            unit=unit,
            inputs=names,
            observable=observable,
            spread=self.spread,
            declared=declared,
            half=twin.precision == "float16",
            as_deployed=self.as_deployed,
        )

    def _may_search(self, twin: Session) -> bool:
        return not self.sides.derived and self.settings.level != "outputs" and not self.settings.watch

    def _observe(
        self,
        net: Session,
        twin: Session,
        plain: Mapping[str, np.ndarray],
        twin_plain: Mapping[str, np.ndarray],
        trace: Trace,
        twin_trace: Trace,
        sample: Mapping[str, np.ndarray],
        pairing: Pairing,
    ) -> list[Guard]:
        found: list[Guard] = []
        for side, session, outputs, seen in (
            ("network", net, plain, trace),
            ("twin", twin, twin_plain, twin_trace),
        ):
            captured = [seen[t] for t in session.output_tensors if t in seen]
            same = len(captured) == len(outputs) and all(
                guards.bit_equal(a, b) for a, b in zip(outputs.values(), captured, strict=True)
            )
            if same:
                continue
            # The tapped run differs from the plain one: a second plain run tells chance from observation.
            said, spread = guards.observer_or_chance(side, outputs, session.run(sample), captured)
            found += said
            if session is net:
                self.watched = {t: np.array(seen[t]) for t in net.output_tensors if t in seen}
            if session is twin:
                self.as_deployed = not any(
                    visible(compare(a, b), self.plain_unit)
                    for a, b in zip(outputs.values(), captured, strict=False)
                    if a.shape == b.shape
                )
            if spread > 0 and session is twin:
                self.spread = self._spread_of(twin, twin_trace, sample, pairing)
        return found

    def _spread_of(
        self, twin: Session, seen: Trace, sample: Mapping[str, np.ndarray], pairing: Pairing
    ) -> dict[str, float]:
        """How far a second run of the twin is from the first, at each pair: this much is chance."""
        watch = {p.twin_site.tensor for p in pairing.pairs}
        again = twin.trace(sample, watch, TraceBuilder(self.settings.memory or DEFAULT_MEMORY))
        found: dict[str, float] = {}
        for p in pairing.pairs:
            one, two = seen[p.twin_site.tensor], again[p.twin_site.tensor]
            far = guards.distance(one, two)
            if far > 0:
                found[p.site.tensor] = far
                if one.shape == two.shape:
                    self.varying[p.site.tensor] = p.transform.to_network(one != two)
        again.close()
        return found

    def _score(
        self, sample: Mapping[str, np.ndarray], ours: Mapping[str, Any], theirs: Mapping[str, Any]
    ) -> None:
        if self._metric is not None:
            named = {row.name: theirs[row.twin_name] for row in self.aligned}
            self.scores.append(task_metric(self._metric, sample, ours, named))


def _ir_folder(root: str | Path | None, network: Any, twin: Any) -> Path | None:
    """One folder for each case: two twins of a network never share one."""
    if root is None:
        return None
    slug = getattr(twin, "slug", None) or getattr(twin, "__name__", "twin")
    return Path(root) / file_name(f"{network.name}-{slug}").strip("-.")


def _settled(
    pairing: Pairing, trace: Mapping[str, np.ndarray], twin_trace: Mapping[str, np.ndarray]
) -> Pairing:
    """Pairs with the transform their shapes ask for; guesses that cannot stand side by side are dropped."""
    kept: list[Pair] = []
    for pair in pairing.pairs:
        if pair.site.tensor not in trace or pair.twin_site.tensor not in twin_trace:
            continue
        ours, theirs = trace[pair.site.tensor], twin_trace[pair.twin_site.tensor]
        if np.iscomplexobj(ours) != np.iscomplexobj(theirs) and pair.how != "output":
            # ONNX has complex numbers as pairs of real ones. An output is part of the signature and must be the same.
            found = from_pairs(ours, theirs)
            if found is not None:
                kept.append(replace(pair, transform=found))
            elif pair.how == "stated":
                kept.append(pair)
            continue
        if ours.shape != theirs.shape and pair.transform.is_identity and pair.how not in ("output", "stated"):
            fitting = candidates(ours.shape, theirs.shape)
            if len(fitting) == 1:
                pair = replace(pair, transform=fitting[0])
            elif pair.confidence < 1:
                continue
        kept.append(pair)
    return replace(pairing, pairs=tuple(kept))
