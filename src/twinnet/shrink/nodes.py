"""The smallest set of nodes that still shows the fault."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import onnx
from onnx import numpy_helper

from twinnet.errors import EngineError, TwinnetError
from twinnet.onnx.cut import between, build
from twinnet.onnx.graph import OnnxGraph
from twinnet.onnx.read import read_onnx
from twinnet.pairing.topology import by_topology
from twinnet.shrink.ddmin import ddmin
from twinnet.shrink.seed import Link
from twinnet.shrink.trial import Bench, Candidate, run_as_written

__all__ = ["fewer_nodes", "fold_static"]


def fewer_nodes(bench: Bench, candidate: Candidate) -> Candidate:
    """Remove nodes, feeding the values they would have computed, as long as the fault still shows."""
    parts = _Parts(candidate)
    nodes = parts.nodes
    if len(nodes) > 1 and candidate.alike:
        kept = ddmin(nodes, lambda part: bench.shows(parts.candidate(part)) is not None)
        if kept != nodes:
            smaller = parts.candidate(kept)
            if smaller is not None:
                candidate = smaller
    candidate = _one_output(bench, candidate)
    return _folded(bench, candidate)


class _Parts:
    """Candidates that consist of some nodes of another candidate."""

    def __init__(self, whole: Candidate) -> None:
        self._whole = whole
        self._graph = OnnxGraph(whole.network)
        self._twin = self._graph if whole.same_file else OnnxGraph(whole.twin)
        self._links = dict(whole.links)
        if not whole.same_file:
            self._links.update(_inner_links(whole))
        static = self._graph.static
        self.nodes = tuple(
            i for i, n in enumerate(self._graph.nodes) if any(o and o not in static for o in n.output)
        )
        self._values = dict(whole.feeds) | _all_values(self._graph, whole)

    def candidate(self, nodes: Sequence[int]) -> Candidate | None:
        """The part with these nodes, fed the values it lacks; None if the twin cannot be cut the same way."""
        chosen = set(nodes)
        graph = self._graph
        made = {o for i in chosen for o in graph.nodes[i].output if o}
        read = {n for i in chosen for n in graph.reads[i]}
        inputs = [n for n in read - made if n not in graph.static]
        outputs = [o for i in sorted(chosen) for o in graph.nodes[i].output if o and o not in read]
        outputs = [o for o in outputs if o in self._values or o in graph.outputs]
        if not outputs or any(n not in self._values for n in inputs):
            return None
        feeds = {n: self._values[n] for n in sorted(inputs)}
        try:
            kept, _ = between(graph, outputs, set(inputs))
            model = build(graph, kept, feeds, outputs)
            if self._whole.same_file:
                return Candidate.of(
                    model, model, feeds, {n: self._links.get(n, Link(n, n)) for n in (*feeds, *outputs)}
                )
            if any(n not in self._links for n in (*inputs, *outputs)):
                return None
            links = {n: self._links[n] for n in (*inputs, *outputs)}
            twin_outputs = [links[n].twin for n in outputs]
            theirs, _ = between(self._twin, twin_outputs, {links[n].twin for n in inputs})
            twin_feeds = {links[n].twin: links[n].transform.to_twin(feeds[n]) for n in inputs}
            return Candidate.of(model, build(self._twin, theirs, twin_feeds, twin_outputs), feeds, links)
        except TwinnetError:
            return None


def _all_values(graph: OnnxGraph, whole: Candidate) -> dict[str, np.ndarray]:
    """Every value of the network's part, run without optimisation on the candidate's inputs."""
    tapped = graph.with_outputs([n for n in graph.observable if n not in graph.outputs])
    try:
        found = run_as_written(tapped, whole.feeds)
    except EngineError:  # an operator that only another engine knows: parts are then fed from the ends only
        return {}
    return {n: v for n, v in found.items() if isinstance(v, np.ndarray) and v.dtype != object}


def _inner_links(whole: Candidate) -> dict[str, Link]:
    """Values of two different files that carry the same tensor: same name and operator, or same place."""
    ours = {o: n for n in whole.network.graph.node for o in n.output if o}
    theirs = {o: n for n in whole.twin.graph.node for o in n.output if o}
    found = {n: Link(n, n) for n in ours if n in theirs and ours[n].op_type == theirs[n].op_type}
    start = {link.twin: name for name, link in whole.links.items()}
    start.update({n: n for n in found})
    try:
        pairs = list(by_topology(read_onnx(whole.network), read_onnx(whole.twin), start))
    except TwinnetError:
        return found
    for name, twin in pairs:
        if name in ours and twin in theirs:
            found.setdefault(name, Link(name, twin))
    return found


def _one_output(bench: Bench, candidate: Candidate) -> Candidate:
    """Only the output that differs most, and what it needs."""
    if len(candidate.outputs) < 2:
        return candidate
    found = bench.shows(candidate)
    if found is None:
        return candidate
    link = candidate.links.get(found.output, Link(found.output, found.output))

    def only(
        model: onnx.ModelProto, output: str, fed: set[str], feeds: dict[str, np.ndarray]
    ) -> onnx.ModelProto:
        graph = OnnxGraph(model)
        return build(graph, between(graph, [output], fed)[0], feeds, [output])

    network = only(candidate.network, found.output, set(candidate.feeds), dict(candidate.feeds))
    twin_feeds = candidate.twin_feeds()
    twin = network if candidate.same_file else only(candidate.twin, link.twin, set(twin_feeds), twin_feeds)
    smaller = Candidate.of(network, twin, candidate.feeds, candidate.links)
    return smaller if bench.shows(smaller) else candidate


def _folded(bench: Bench, candidate: Candidate) -> Candidate:
    """Fold constants, unless the fault is in them."""
    try:
        network = fold_static(candidate.network)
        twin = network if candidate.same_file else fold_static(candidate.twin)
    except EngineError:  # an engine that cannot compute it: it stays
        return candidate
    if network is None and twin is None:
        return candidate
    smaller = Candidate.of(
        network or candidate.network, twin or candidate.twin, candidate.feeds, candidate.links
    )
    return smaller if bench.shows(smaller) else candidate


def fold_static(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with everything that depends on no input computed in advance; None if there is nothing to fold."""
    graph = OnnxGraph(model)
    fixed = [i for i, n in enumerate(graph.nodes) if any(o in graph.static for o in n.output if o)]
    if not fixed:
        return None
    kept = [i for i in range(len(graph.nodes)) if i not in set(fixed)]
    wanted = {n for i in kept for n in graph.reads[i]} & {o for i in fixed for o in graph.nodes[i].output}
    values = run_as_written(build(graph, fixed, {}, sorted(wanted)), {})
    folded = deepcopy(model)
    del folded.graph.node[:]
    folded.graph.node.extend(graph.nodes[i] for i in kept)
    needed = {n for i in kept for n in graph.reads[i]}
    held = [t for t in model.graph.initializer if t.name in needed]
    del folded.graph.initializer[:]
    folded.graph.initializer.extend(held)
    folded.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in values.items())
    return folded
