"""ONNX files as ladders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from onnx import helper

from twinnet.job import Arrays
from twinnet.ladder.graph_source import GraphSource, Node
from twinnet.onnx.cut import between, build
from twinnet.onnx.graph import OnnxGraph
from twinnet.onnx.network import OnnxNetwork
from twinnet.onnx.shapes import infer

__all__ = ["OnnxSource"]


class OnnxSource(GraphSource):
    """An ONNX file, cut between its nodes."""

    @cached_property
    def _graph(self) -> OnnxGraph:
        return OnnxGraph(self.network.model)

    @cached_property
    def _held(self) -> list[Node]:
        graph = self._graph
        found = []
        for node, reads in zip(graph.nodes, graph.reads, strict=True):
            makes = tuple(v for v in node.output if v and v not in graph.static)
            if makes:
                size = sum(math.prod(graph.weights[v].dims) for v in reads if v in graph.weights)
                name = node.name or node.output[0]
                found.append(Node(name, node.op_type, frozenset(reads - graph.static), makes, size))
        return found

    def _nodes(self) -> Sequence[Node]:
        return self._held

    def _outputs(self) -> frozenset[Any]:
        return frozenset(self._graph.outputs)

    def _part(self, source: Any, target: Any, sample: Arrays, given: Arrays | None) -> Any:
        graph = self._graph
        feeds = dict(sample) if given is None else {source: next(iter(given.values()))}
        outputs = [target] if target is not None else list(graph.outputs)
        nodes, read = between(graph, outputs, set(feeds))
        model = build(graph, nodes, {name: feeds[name] for name in read}, outputs, graph.weights)
        inferred = infer(model)
        known = {} if inferred is None else {v.name: v for v in inferred.output}
        for value in model.graph.output:
            kind = known[value.name].type.tensor_type.elem_type if value.name in known else 0
            if kind:  # some engines refuse outputs without a declared type
                value.CopyFrom(helper.make_tensor_value_info(value.name, kind, None))
        # Without a path: engines read the file of a network that has one.
        return OnnxNetwork(self.network.complete(model), name=f"{self.network.name} to {outputs[0]}")

    def _renamed(self, part: Any, arrays: Arrays) -> Arrays:
        names = [spec.name for spec in part.signature.inputs]
        if set(names) <= set(arrays):
            return {name: arrays[name] for name in names}
        return dict(zip(names, arrays.values(), strict=True))
