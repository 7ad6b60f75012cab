"""Takes seeds from a check while its tensors are in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines import Spec, find_engine, standalone_of
from twinnet.engines.meaning import OwnJudge
from twinnet.errors import EngineError, TwinnetError
from twinnet.judge.aggregate import VISIBLE
from twinnet.judge.born import BornTest
from twinnet.judge.expectation import SegmentRun, expect
from twinnet.judge.sizes import as_real
from twinnet.network import ModuleNetwork
from twinnet.network.arrays import to_numpy, to_tensor
from twinnet.onnx.cut import between, build
from twinnet.onnx.export import OnnxArtefact, onnx_artefact
from twinnet.onnx.graph import OnnxGraph
from twinnet.pairing import IDENTITY, Pair, Transform
from twinnet.result import PairResult
from twinnet.shrink.seed import LARGEST, Link, Place, Runner, Seed
from twinnet.shrink.steps import allowed_by
from twinnet.shrink.trial import Bench, Candidate, Outcome, exact_values, run

if TYPE_CHECKING:
    from twinnet.judge.plan import Plan
    from twinnet.judge.sample import Seen
    from twinnet.shrink.collect import Source

__all__ = ["Gatherer"]

_SEEDS = 2
_WIDER = 5
_PATIENCE = 5.0


class Gatherer:
    """Makes seeds of the failing pairs of one sample; worse ones replace those of earlier samples."""

    def __init__(self, plan: Plan, source: Source, seen: Seen) -> None:
        self._source = source
        self._net, self._twin = plan.net, plan.twin
        self._graph = plan.graph
        # A network with its own judge also has its own steps.
        self._test = plan.test if isinstance(plan.test, BornTest) else None
        self._own = plan.test if isinstance(plan.test, OwnJudge) else None
        self._pairs = {p.site.tensor: p for p in plan.pairing.pairs}
        self._trace, self._twin_trace = seen.trace, seen.twin_trace
        self._sample = seen.sample
        self._unit = plan.units.born

    def add(self, judged: Sequence[PairResult], seeds: dict[str, Seed]) -> None:
        """Seeds for the first failing pairs and for the worst ones."""
        failing = [p for p in judged if p.status == "fail"]
        worst = sorted(failing, key=lambda p: p.ratio if p.ratio is not None else np.inf, reverse=True)
        chosen = {p.site.tensor: p for p in (*failing[:_SEEDS], *worst[:_SEEDS])}
        for tensor, pair in chosen.items():
            before = seeds.get(tensor)
            if before is not None and before.ratio >= (pair.ratio or 0.0):
                continue
            try:
                seed = self._seed(pair)
            except TwinnetError:  # a repro is optional: the verdict does not need it
                continue
            held = sum(s.nbytes for s in seeds.values())
            if seed is not None and held + seed.nbytes <= LARGEST:
                seeds[tensor] = seed

    # -- one finding ---------------------------------------------------------------------------------------------

    def _seed(self, result: PairResult) -> Seed | None:
        pair = _in_parts(self._pairs[result.site.tensor])
        observed = np.array(pair.transform.to_network(self._twin_trace[pair.twin_site.tensor]))
        spec = self._source.reference
        base = Seed(
            kind="stored",
            place=Place(
                result.site.tensor, result.site.label, result.site.module, result.site.source, result.segment
            ),
            network_side=Runner(self._net.engine, self._options(spec), self._net.version),
            twin_side=Runner(self._twin.engine, self._options(self._source.twin), self._twin.version),
            output=result.site.tensor,
            unit=self._unit,
            limit=result.limit,
            ratio=result.ratio if result.ratio is not None else float("inf"),
            observed=to_numpy(as_real(to_tensor(observed))),
            quantised=self._test is not None and self._test.declared is not None,
        )
        if self._own is not None:
            found = self._own.seed(base, pair, self._sample, self._twin_trace)
            return found or self._recorded(base, result)
        if self._graph is None or self._test is None or result.site.tensor not in self._graph.producer:
            return self._recorded(base, result)
        values, expected, allowed = self._exact(pair, base)
        alone_side = standalone_of(self._twin.engine)
        if alone_side is not None and not alone_side.takes_onnx:
            values, expected, allowed = self._by_steps(pair, base) or (values, expected, allowed)
            return self._own_format(base, pair, expected, allowed) or replace(
                base, network_side=Runner(), inputs=values, expected=expected, allowed=allowed
            )
        twin = self._twin.artefact if alone_side is not None else None
        network = self._network_artefact()
        if twin is not None:
            live = self._live(base, pair, network, twin, expected, allowed) if network is not None else None
            if live is not None:
                return live
            values, expected, allowed = self._by_steps(pair, base) or (values, expected, allowed)
            alone = self._against_expected(base, pair, twin, expected, allowed)
            if alone is not None:
                return alone
        found = replace(base, inputs=values, expected=expected, allowed=allowed)
        return self._with_network(found, network, values)

    def _options(self, spec: Any) -> dict[str, str]:
        job = self._source.job
        threads = {"threads": str(job.threads)} if job.threads else {}
        if not isinstance(spec, Spec):
            return threads
        return threads | find_engine(spec.engine).standalone_options(spec.options, spec.file, job)

    def _network_artefact(self) -> OnnxArtefact | None:
        """The network as ONNX: its own file, or an export."""
        if self._net.artefact is not None:
            return self._net.artefact
        if isinstance(self._source.twin, Spec) and self._source.derived and self._twin.artefact is not None:
            return self._twin.artefact
        if not isinstance(self._source.network, ModuleNetwork) or standalone_of(self._twin.engine) is None:
            return None
        try:
            return onnx_artefact(self._source.network, None, self._source.job)
        except TwinnetError:
            return None

    def _value(self, name: str) -> np.ndarray:
        """A value as the twin computed it, in the network's layout."""
        assert self._test is not None
        if name in self._test.inputs:
            return np.asarray(self._sample[self._test.inputs[name]])
        pair = self._pairs.get(name)
        if pair is not None:
            return np.asarray(pair.transform.to_network(self._twin_trace[pair.twin_site.tensor]))
        return np.asarray(self._trace[name])

    def _exact(self, pair: Pair, base: Seed) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        assert self._graph is not None and self._test is not None
        found = self._test.frontiers(self._sample, self._trace, self._twin_trace)(pair)
        if found is None:
            raise EngineError(f"a tensor before {pair.site.tensor} is missing", stage="cut")
        values = {n: self._value(n) for n in found[1]}
        expected, allowed = exact_values(self._graph, values, pair.site.tensor, base.unit, base.limit)
        return values, expected, allowed

    def _by_steps(
        self, pair: Pair, base: Seed
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray] | None:
        """The same by the steps that the twin declares, as the finding was judged; None where it declares none."""
        test = self._test
        found = None if test is None else test.frontiers(self._sample, self._trace, self._twin_trace)(pair)
        if test is None or test.declared is None or found is None:
            return None
        own = self._trace.get(pair.site.tensor)
        layers, values, _ = found
        expected = expect(test.declared, SegmentRun(pair, layers, values, self._twin_trace, own, base.unit))
        return (
            None
            if expected is None
            else ({n: self._value(n) for n in values}, *allowed_by(expected, base.limit))
        )

    # -- both sides as ONNX --------------------------------------------------------------------------------------

    def _links(self, network: OnnxArtefact) -> dict[str, tuple[str, Link]]:
        """For each known value of the network's graph: its ONNX name, and the link to the twin's value."""
        assert self._test is not None
        as_onnx: Mapping[str, str] | None = None
        if network is not self._net.artefact and network is not self._twin.artefact:
            as_onnx = {ours: theirs for theirs, ours in reversed(list((network.provenance or {}).items()))}
        found: dict[str, tuple[str, Link]] = {}
        for tensor, pair in self._pairs.items():
            if pair.transform.pairs:  # ONNX models take no complex inputs: the part extends to real values
                continue
            if network is self._net.artefact:
                name = tensor
            elif as_onnx is None:
                name = pair.twin_site.tensor
            elif tensor in as_onnx:
                name = as_onnx[tensor]
            else:
                continue
            found[tensor] = (name, Link(name, pair.twin_site.tensor, pair.transform))
        for name, sample_name in self._test.inputs.items():
            ours = network.inputs.get(sample_name)
            theirs = self._twin.inputs.get(sample_name)
            if ours is not None and theirs is not None:
                found[name] = (ours, Link(ours, theirs))
        return found

    def _live(
        self,
        base: Seed,
        pair: Pair,
        network: OnnxArtefact,
        twin: OnnxArtefact,
        expected: np.ndarray,
        allowed: np.ndarray,
    ) -> Seed | None:
        links = self._links(network)
        target = links.get(pair.site.tensor)
        if target is None:
            return None
        own = network is self._net.artefact and standalone_of(self._net.engine) is not None
        base = replace(
            base, network_side=base.network_side if own else Runner(), kind="live", output=target[0]
        )
        ours, theirs = OnnxGraph(network.model), OnnxGraph(twin.model)
        fed = {n: link for n, link in links.items() if n != pair.site.tensor}
        assert self._test is not None
        begun = time.monotonic()
        for step in range(_WIDER + 1):
            if step and time.monotonic() - begun > _PATIENCE:
                return None
            if step == _WIDER:  # start from the network's inputs
                fed = {n: link for n, link in fed.items() if n in self._test.inputs}
            made = self._candidate(target[1], fed, ours, theirs, network, twin)
            bench = Bench(base.network_side, base.twin_side, base.unit, base.limit, quantised=base.quantised)
            found = bench.shows(made) if made is not None else None
            if made is not None and found is not None:
                if not own and step == 0 and not self._faithful(made, base, expected, allowed):
                    return None
                return replace(
                    base,
                    network=made.network,
                    twin=made.twin,
                    inputs={n: np.array(a) for n, a in made.feeds.items()},
                    links=tuple(made.links.values()),
                    observed=np.array(found.observed),
                    ratio=_ratio(found),
                )
            read = set() if made is None else set(made.feeds)
            fed = {n: link for n, link in fed.items() if link[0] not in read or n in self._test.inputs}
        return None

    def _candidate(
        self,
        target: Link,
        fed: Mapping[str, tuple[str, Link]],
        ours: OnnxGraph,
        theirs: OnnxGraph,
        network: OnnxArtefact,
        twin: OnnxArtefact,
    ) -> Candidate | None:
        by_name = {link.network: name for name, (_, link) in fed.items()}
        by_twin = {link.twin: link.network for _, link in fed.values()}
        try:
            nodes, read = between(ours, [target.network], set(by_name))
            twin_nodes, twin_read = between(theirs, [target.twin], set(by_twin))
        except EngineError:
            return None
        names = dict.fromkeys([*read, *(by_twin[n] for n in twin_read)])
        feeds = {n: self._value(by_name[n]) for n in names}
        links = {n: fed[by_name[n]][1] for n in names} | {target.network: target}
        same = ours.model is theirs.model and all(k.network == k.twin for k in links.values())
        model = build(ours, nodes, feeds, [target.network], network.network.weights())
        if same and nodes == twin_nodes:
            return Candidate.of(model, model, feeds, links)
        twin_feeds = {k.twin: k.transform.to_twin(feeds[n]) for n, k in links.items() if n in feeds}
        twin_model = build(theirs, twin_nodes, twin_feeds, [target.twin], twin.network.weights())
        return Candidate.of(model, twin_model, feeds, links)

    def _faithful(self, made: Candidate, base: Seed, expected: np.ndarray, allowed: np.ndarray) -> bool:
        """Whether the exported part computes in float64 what the network's layers compute."""
        from twinnet.onnx.read import read_onnx

        found, _ = exact_values(read_onnx(made.network), made.feeds, base.output, base.unit, base.limit)
        if found.shape != expected.shape:
            return False
        if not np.issubdtype(expected.dtype, np.floating):
            return bool(np.array_equal(found, expected))
        with np.errstate(invalid="ignore"):
            off = np.abs(found - expected)
        return bool(np.all((off <= allowed) | ~np.isfinite(expected)))

    # -- one side, or none ---------------------------------------------------------------------------------------

    def _against_expected(
        self,
        base: Seed,
        pair: Pair,
        twin: OnnxArtefact,
        expected: np.ndarray,
        allowed: np.ndarray,
    ) -> Seed | None:
        """The twin's part, run alone and compared with what the network's layers compute."""
        assert self._test is not None
        known = {p.twin_site.tensor: p for p in self._pairs.values() if p is not pair}
        theirs = OnnxGraph(twin.model)
        inputs = {self._twin.inputs[s]: s for s in self._test.inputs.values() if s in self._twin.inputs}
        fed = (set(known) | set(inputs)) - {pair.twin_site.tensor}
        try:
            nodes, read = between(theirs, [pair.twin_site.tensor], fed)
        except EngineError:
            return None
        feeds = {
            n: np.asarray(self._sample[inputs[n]]) if n in inputs else np.asarray(self._twin_trace[n])
            for n in read
        }
        model = build(theirs, nodes, feeds, [pair.twin_site.tensor], twin.network.weights())
        try:
            alone = run(base.twin_side, model, feeds)[pair.twin_site.tensor]
        except EngineError:  # the part cannot be run alone: the stored values remain
            return None
        got = pair.transform.to_network(alone)
        if got.shape != expected.shape or not _beyond(got, expected, allowed):
            return None
        return replace(
            base,
            kind="expected",
            twin=model,
            network_side=Runner(),
            inputs={n: np.array(a) for n, a in feeds.items()},
            output=pair.twin_site.tensor,
            links=(Link(pair.twin_site.tensor, pair.twin_site.tensor, pair.transform),),
            observed=np.array(got),
            expected=expected,
            allowed=allowed,
        )

    def _own_format(self, base: Seed, pair: Pair, expected: np.ndarray, allowed: np.ndarray) -> Seed | None:
        """The twin's part in its engine's own format; None where it cannot be cut, or does not show the fault alone."""
        assert self._test is not None
        known = {p.twin_site.tensor for p in self._pairs.values() if p is not pair}
        given = {t: np.asarray(self._sample[n]) for n, t in self._twin.inputs.items() if n in self._sample}
        values = {**{n: self._twin_trace[n] for n in known if n in self._twin_trace}, **given}
        target = pair.twin_site.tensor
        try:
            part = self._twin.cut(target, set(values), values)
            alone = None if part is None else self._twin.part(target, set(values), values)
        except EngineError:  # the stored values remain
            return None
        if part is None or alone is None:
            return None
        got = pair.transform.to_network(alone)
        if got.shape != expected.shape or not _beyond(got, expected, allowed):
            return None
        # `part.perm` comes first: steps along an axis count in the order in which the session shows the tensor.
        if part.perm is not None and (pair.transform.perm is not None or len(pair.transform.scale or ()) > 1):
            return None
        transform = pair.transform if part.perm is None else replace(pair.transform, perm=part.perm)
        return replace(
            base,
            kind="part",
            network_side=Runner(),
            inputs={n: np.array(a) for n, a in part.feeds.items()},
            output=part.output,
            links=(Link(part.output, part.output, transform),),
            observed=np.array(got),
            expected=expected,
            allowed=allowed,
            steps={"suffix": part.suffix, "operators": list(part.operators)},
            arrays={"file": np.frombuffer(part.data, np.uint8)},
        )

    def _with_network(
        self, seed: Seed, network: OnnxArtefact | None, values: Mapping[str, np.ndarray]
    ) -> Seed:
        """The seed with the network's part added, if the network is ONNX."""
        if network is None or network is not self._net.artefact or standalone_of(self._net.engine) is None:
            return replace(seed, network_side=Runner())
        graph = OnnxGraph(network.model)
        try:
            nodes, read = between(graph, [seed.output], set(values))
            model = build(
                graph, nodes, {n: values[n] for n in read}, [seed.output], network.network.weights()
            )
        except EngineError:
            return replace(seed, network_side=Runner())
        return replace(seed, network=model)

    def _recorded(self, base: Seed, result: PairResult) -> Seed:
        """The seed if no layers are known: expected is the network's own tensor, within a share of its range."""
        ours = np.array(self._trace[result.site.tensor])
        wide = ours.astype(np.float64) if np.issubdtype(ours.dtype, np.floating) else ours
        finite = wide[np.isfinite(wide)] if wide.size else wide
        scale = float(np.abs(finite).max()) if finite.size else 0.0
        allowed = np.full(ours.shape, VISIBLE * 16 * self._unit * scale if wide is not ours else 0.0)
        note = "the expected values are the network's own output here, not an evaluation in float64"
        return replace(base, network_side=Runner(), expected=wide, allowed=allowed, note=note)


def _in_parts(pair: Pair) -> Pair:
    """A complex pair compared by real and imaginary parts, as the twin stores them."""
    return replace(pair, transform=IDENTITY) if pair.transform == Transform(pairs=True) else pair


def _ratio(found: Outcome) -> float:
    return found.born.ratio if found.born.ratio is not None else float("inf")


def _beyond(got: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> bool:
    from twinnet.shrink.script import beyond

    return bool(beyond(got, expected, allowed).any())
