"""One check from beginning to end: open both sides, pair, run, judge every pair, listen to the guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines import Spec
from twinnet.engines.base import UNITS, Job, Session, SiteJudge, coarser
from twinnet.errors import EngineError, UsageError
from twinnet.judge import guards
from twinnet.judge.again import restated
from twinnet.judge.aggregate import merge, visible
from twinnet.judge.conclusion import Conclusion
from twinnet.judge.metrics import compare, dtype_class
from twinnet.judge.other import refuse_inputs, refuse_other
from twinnet.judge.parallel import workers
from twinnet.judge.sides import OutputPair, Sides, align_outputs, dims, refuse_random
from twinnet.judge.task import load_metric, task_metric
from twinnet.judge.tolerance import Tolerance, Tolerances, by_tolerance, read_rules
from twinnet.judge.verdicts import LIMIT, Born
from twinnet.layers.graph import Graph
from twinnet.pairing import Pair, Pairing, pair_by_fingerprint, pair_sites
from twinnet.pairing.transforms import candidates
from twinnet.result import (
    Difference,
    Guard,
    Judged,
    PairResult,
    Result,
    TaskMetric,
)
from twinnet.site import Site
from twinnet.store import dtype_name
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.blame.context import Blame, Context
    from twinnet.shrink.seed import Seed

__all__ = ["Judgement", "Seen"]

_KEPT = 8
_KEPT_BYTES = 32 << 20
_SMALL = 64 << 20
_BLAMED = 8


@dataclass(frozen=True)
class Seen:
    """One sample as both sides ran it, with what was made of it."""

    number: int
    sample: Mapping[str, np.ndarray]
    graph: Graph | None
    pairing: Pairing
    trace: Trace
    twin_trace: Trace
    judged: tuple[PairResult, ...]
    unit: float


class Judgement:
    """The state of one check. `kept` holds the tensors worth showing, by network tensor name."""

    def __init__(self, network: Any, feed: Any, reference: Spec | Session, twin: Any, settings: Any) -> None:
        self.network = network
        self.feed = feed
        self.settings = settings
        self.timings: dict[str, float] = {}
        self.kept: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.blamed: dict[str, Blame] = {}
        self.seeds: dict[str, Seed] = {}
        self.by_network = False
        self.watch_all = False
        # A metric that cannot be loaded is said before anything has run.
        self._metric = load_metric(settings.metric)
        self.scores: list[TaskMetric] = []
        self.plain_unit = UNITS["float32"]
        self.aligned: list[OutputPair] = []
        # How far two equal runs of the twin are apart, by network tensor; empty for a deterministic twin.
        self._spread: dict[str, float] = {}
        # Samples are made when asked for; the first is asked for often.
        self.first: Mapping[str, np.ndarray] = feed.samples[0]
        flags = Tolerance(
            settings.rtol, settings.atol, settings.ulp, settings.snr, settings.psnr, settings.cosine
        )
        rules = read_rules(settings.tolerance_file) if settings.tolerance_file else ()
        self.tolerances = Tolerances.of(flags, rules)
        self.job = Job(
            inputs=self.first,
            threads=settings.threads,
            time_limit=settings.time_limit,
            memory=settings.memory,
            timings=self.timings,
            progress=lambda step: settings.progress(step, None),
        )
        self.sides = Sides(network, reference, twin, self.job)

    # -- the check -----------------------------------------------------------------------------------------------

    def result(self) -> Result:
        """Run everything. EngineError means verdict ERROR and is left to the caller."""
        net = self.sides.open_network()
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
        pairing = self._pair(net, twin, graph)
        unit = UNITS.get(twin.precision, UNITS["float32"])
        # What a segment creates is measured at the twin's precision; end to end the coarser side shows as well.
        self.plain_unit = UNITS.get(coarser(net.precision, twin.precision), UNITS["float32"])
        results: dict[str, PairResult] = {}
        found: list[Guard] = [Guard("note", n) for n in (*self.feed.notes, *net.notes, *twin.notes)]
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
            judged = self._judge(graph, pairing, sample, trace, twin_trace, unit, number)
            for pair in judged:
                before = results.get(pair.site.tensor)
                results[pair.site.tensor] = pair if before is None else merge(before, pair)
            self._keep(judged, pairing, trace, twin_trace)
            self._blame(judged, graph, pairing, sample, trace, twin_trace, unit)
            if self.settings.keep != "none" and any(p.status == "fail" for p in judged):
                self._seed(judged, net, twin, graph, pairing, trace, twin_trace, sample, unit)
            self._seen(Seen(number, sample, graph, pairing, trace, twin_trace, tuple(judged), unit))
        ordered = [results[p.site.tensor] for p in pairing.pairs]
        if self.tolerances:
            # Once more by the worst figures of all samples, so that judging the run again says the same.
            ordered = [restated(p, self.tolerances) for p in ordered]
        conclusion = Conclusion(self, net, twin, graph, pairing, ordered, plain, twin_plain, outputs_seen)
        return conclusion.result(found)

    def _seen(self, seen: Seen) -> None:
        """A sample is done: its tensors go."""
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
            twin_graph=None if derived else twin.graph(),
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
        own = net.site_judge(pairing.pairs, twin, unit)
        self.by_network = own is not None
        if own is not None or graph is None:
            return own
        # torch comes in with the layers; two recordings are compared without either.
        from twinnet.judge.born import BornTest

        names = {tensor: name for name, tensor in net.inputs.items()}
        observable = {s.tensor for s in pairing.sites}
        return BornTest(
            graph, pairing.pairs, unit=unit, inputs=names, observable=observable, spread=self._spread
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
            if spread > 0 and session is twin:
                self._spread = self._spread_of(twin, twin_trace, sample, pairing)
        return found

    def _spread_of(
        self, twin: Session, seen: Trace, sample: Mapping[str, np.ndarray], pairing: Pairing
    ) -> dict[str, float]:
        """How far a second run of the twin is from the first, at each pair: this much is chance."""
        watch = {p.twin_site.tensor for p in pairing.pairs}
        again = twin.trace(sample, watch, TraceBuilder(self.settings.memory or DEFAULT_MEMORY))
        found = {
            p.site.tensor: guards.distance(seen[p.twin_site.tensor], again[p.twin_site.tensor])
            for p in pairing.pairs
        }
        again.close()
        return {tensor: far for tensor, far in found.items() if far > 0}

    def _judge(
        self,
        graph: Graph | None,
        pairing: Pairing,
        sample: Mapping[str, np.ndarray],
        trace: Trace,
        twin_trace: Trace,
        unit: float,
        number: int,
    ) -> list[PairResult]:
        judge: Callable[[Pair], Born] | None = None
        test = self._test(graph, pairing, unit)
        names: Mapping[str, str] = {}
        if test is not None:
            names = test.inputs
            judge = test.on(sample, trace, twin_trace)
        order = {s.tensor: i for i, s in enumerate(pairing.sites)}

        def plain(pair: Pair) -> tuple[Difference | None, str]:
            a = trace[pair.site.tensor]
            b = pair.transform.to_network(twin_trace[pair.twin_site.tensor])
            if a.shape != b.shape:
                return None, f"shape {dims(b.shape)} where the network has {dims(a.shape)}"
            if dtype_class(a.dtype) != dtype_class(b.dtype):
                return None, f"{b.dtype.name} where the network has {a.dtype.name}"
            return compare(a, b), ""

        equal: dict[str, bool] = {}

        def same(pair: Pair) -> Born | None:
            """Bit-equal from bit-equal inputs: the twin does what the network does, nothing is left to evaluate."""
            tensor = pair.site.tensor
            if test is None or not equal[tensor] or (graph is not None and tensor not in graph.producer):
                return None
            if not all(equal.get(n, n in names or n in test.shape_values) for n in test.segment(tensor)[1]):
                return None
            array = trace[tensor]
            if dtype_class(array.dtype) == "float" and (array.size == 0 or not np.any(array)):
                return Born("untested", 0.0, 0.0, 0.0, "it is 0 everywhere", test.labels(tensor))
            return Born("pass", 0.0, 0.0, 0.0, segment=test.labels(tensor))

        def born_of(pair: Pair) -> Born:
            if judge is None or pair.site.tensor not in equal:
                return Born("not judged")
            return same(pair) or judge(pair)

        judged: list[PairResult] = []
        with self.job.step("judge"), workers() as pool:
            compared = list(pool.map(plain, pairing.pairs))
            equal.update(
                {
                    p.site.tensor: d.differing == 0
                    for p, (d, _) in zip(pairing.pairs, compared, strict=True)
                    if d
                }
            )
            found = pool.map(born_of, pairing.pairs)
            for done, (pair, (difference, problem), born) in enumerate(
                zip(pairing.pairs, compared, found, strict=True)
            ):
                self.settings.progress("judging", done / len(pairing.pairs))
                judged.append(
                    self._status(
                        pair, born, difference, problem, unit, number, order[pair.site.tensor], trace
                    )
                )
        return judged

    def _status(
        self,
        pair: Pair,
        born: Born,
        difference: Difference | None,
        problem: str,
        unit: float,
        number: int,
        order: int,
        trace: Trace,
    ) -> PairResult:
        array = trace[pair.site.tensor]
        site = replace(pair.site, shape=tuple(array.shape), dtype=dtype_name(array.dtype))
        base = PairResult(
            site=site,
            twin_site=pair.twin_site,
            status="fail",
            how=pair.how,
            confidence=pair.confidence,
            transform=str(pair.transform),
            order=order,
            born=born.born,
            floor=born.floor,
            ratio=born.ratio,
            limit=born.limit,
            segment=born.segment,
            sample=number,
            difference=difference or Difference(),
        )
        if problem or difference is None:
            return replace(base, reason=problem, rule="structure")
        if born.status == "not judged":
            automatic = self._plain_rule(base, born)
        else:
            automatic = Judged(born.status, born.reason)
        held = by_tolerance(self.tolerances, site, difference) if self.tolerances else automatic
        return replace(
            base,
            status=held.status,
            reason=held.reason,
            rule=held.rule,
            automatic=automatic if self.tolerances else None,
        )

    def _plain_rule(self, base: PairResult, born: Born) -> Judged:
        """Where the network's layers cannot be evaluated only outputs are judged, by the size of the difference."""
        if base.site.role != "output":
            return Judged("not judged", born.reason, "")
        spread = self._spread.get(base.site.tensor, 0.0)
        if (
            visible(base.difference, self.plain_unit * 16, base.site.op)
            and not base.difference.max_abs <= LIMIT * spread
        ):
            reason = "visibly different" + (f" ({born.reason})" if born.reason else "")
            return Judged("fail", reason, "plain")
        return Judged("pass", born.reason, "plain")

    def _blame(
        self,
        judged: Sequence[PairResult],
        graph: Graph | None,
        pairing: Pairing,
        sample: Mapping[str, np.ndarray],
        trace: Trace,
        twin_trace: Trace,
        unit: float,
    ) -> None:
        """Cause and impact of the first findings, while the tensors of the sample that shows them are at hand."""
        failed = [p for p in judged if p.status == "fail" and p.rule in ("noise floor", "structure")]
        known = self.blamed
        worse = [
            p for p in failed if p.site.tensor not in known or (p.ratio or 0.0) > known[p.site.tensor].ratio
        ]
        worse = [p for p in worse if p.site.tensor in known or len(known) < _BLAMED][:_BLAMED]
        if not worse:
            return
        context = self.context(graph, pairing, sample, trace, twin_trace, unit)
        if context is None:
            return
        from twinnet.blame.context import blame

        self.settings.progress("looking for the cause", None)
        by_tensor = {p.site.tensor: p for p in pairing.pairs}
        with self.job.step("blame"):
            known.update(blame([(by_tensor[p.site.tensor], p.ratio or 0.0) for p in worse], context))

    def context(
        self,
        graph: Graph | None,
        pairing: Pairing,
        sample: Mapping[str, np.ndarray],
        trace: Trace,
        twin_trace: Trace,
        unit: float,
    ) -> Context | None:
        """What blame may look at; None where no canonical layers judge."""
        net, twin = self.sides.net, self.sides.twin
        if graph is None or net is None or twin is None:
            return None
        from twinnet.blame.context import Context
        from twinnet.judge.born import BornTest
        from twinnet.network.arrays import to_tensor

        test = self._test(graph, pairing, unit)
        if not isinstance(test, BornTest):
            return None
        return Context(
            graph,
            pairing.pairs,
            test.frontiers(sample, trace, twin_trace),
            trace,
            twin_trace,
            {t: to_tensor(np.asarray(sample[n])) for n, t in net.inputs.items() if n in sample},
            unit,
            twin.graph(),
            {twin.inputs[n]: t for n, t in net.inputs.items() if n in twin.inputs},
            tuple(zip(net.output_tensors, twin.output_tensors, strict=False)),
        )

    # -- the answer ----------------------------------------------------------------------------------------------

    def _keep(self, judged: Sequence[PairResult], pairing: Pairing, trace: Trace, twin_trace: Trace) -> None:
        """Copies of the tensors a person will want to see: outputs, findings, the worst of the rest."""
        if self.settings.keep == "none":
            return
        by_tensor = {p.site.tensor: p for p in pairing.pairs}
        ranked = sorted(
            judged,
            key=lambda p: (p.status == "fail", p.site.role == "output", p.ratio or 0.0, p.difference.max_abs),
            reverse=True,
        )
        wanted = ranked if self.settings.keep == "all" else ranked[:_KEPT]
        for result in wanted:
            name = result.site.tensor
            pair = by_tensor[name]
            array = trace[name]
            if self.settings.keep != "all" and array.nbytes > _KEPT_BYTES:
                continue
            before = self.kept.get(name)
            if before is None or result.status == "fail":
                twin = pair.transform.to_network(twin_trace[pair.twin_site.tensor])
                self.kept[name] = (np.array(array), np.array(twin))
        if self.settings.keep != "all" and len(self.kept) > 2 * _KEPT:
            for name in list(self.kept)[2 * _KEPT :]:
                del self.kept[name]

    def _seed(
        self,
        judged: Sequence[PairResult],
        net: Session,
        twin: Session,
        graph: Graph | None,
        pairing: Pairing,
        trace: Trace,
        twin_trace: Trace,
        sample: Mapping[str, np.ndarray],
        unit: float,
    ) -> None:
        """What a repro of the findings will be made from, while the tensors are there."""
        try:
            from twinnet.shrink.gather import Gatherer
        except ImportError:  # two recordings are compared without onnx and torch
            return
        self.settings.progress("keeping the findings for a repro", None)
        with self.job.step("repro"):
            test = self._test(graph, pairing, unit)
            gatherer = Gatherer(self, (net, twin), graph, test, pairing, (trace, twin_trace), sample, unit)
            gatherer.add(judged, self.seeds)

    def _score(
        self, sample: Mapping[str, np.ndarray], ours: Mapping[str, Any], theirs: Mapping[str, Any]
    ) -> None:
        if self._metric is not None:
            named = {row.name: theirs[row.twin_name] for row in self.aligned}
            self.scores.append(task_metric(self._metric, sample, ours, named))


def _settled(
    pairing: Pairing, trace: Mapping[str, np.ndarray], twin_trace: Mapping[str, np.ndarray]
) -> Pairing:
    """Pairs with the transform their shapes ask for; guesses that cannot stand side by side are dropped."""
    kept: list[Pair] = []
    for pair in pairing.pairs:
        if pair.site.tensor not in trace or pair.twin_site.tensor not in twin_trace:
            continue
        ours, theirs = trace[pair.site.tensor], twin_trace[pair.twin_site.tensor]
        if ours.shape != theirs.shape and pair.transform.is_identity and pair.how not in ("output", "stated"):
            fitting = candidates(ours.shape, theirs.shape)
            if len(fitting) == 1:
                pair = replace(pair, transform=fitting[0])
            elif pair.confidence < 1:
                continue
        kept.append(pair)
    return replace(pairing, pairs=tuple(kept))
