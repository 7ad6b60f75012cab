"""Parts of ONNX models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from twinnet.cache import content_key
from twinnet.cutting import Cut, Layer, Node
from twinnet.errors import EngineError
from twinnet.job import Arrays
from twinnet.onnx.cut import between, build
from twinnet.onnx.graph import OnnxGraph, bodies, reads
from twinnet.onnx.network import OnnxNetwork
from twinnet.onnx.shapes import infer

__all__ = ["OnnxCutter"]

_SHAPES = ("Shape", "Size")
_NO_TENSORS = {"SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceMap"}
_NO_TENSORS |= {"SplitToSequence", "Optional"}
"""Operators whose results are no tensors: nothing can be fed there."""
_DRAWS = ("Random", "Multinomial", "Bernoulli")


class OnnxCutter:
    """One ONNX model. A layer is a node with everything it needs that is not an observable tensor."""

    def __init__(self, network: OnnxNetwork) -> None:
        self._network = network
        self._graph = OnnxGraph(network.model)

    @cached_property
    def _fixed(self) -> frozenset[str]:
        """Values that depend on the shapes of the inputs only, constants among them."""
        known = set(self._graph.static)
        for node, needed in zip(self._graph.nodes, self._graph.reads, strict=True):
            draws = node.op_type.startswith(_DRAWS)
            if (node.op_type in _SHAPES or (needed and needed <= known)) and not draws:
                known.update(filter(None, node.output))
        return frozenset(known)

    @cached_property
    def _fed(self) -> frozenset[str]:
        """Values that a layer may start from."""
        graph = self._graph
        hidden = {name for node in graph.nodes if node.op_type in _NO_TENSORS for name in node.output}
        made = {name for name in graph.producer if name not in graph.static}
        return frozenset((made | set(graph.inputs)) - hidden)

    @property
    def outputs(self) -> frozenset[Any]:
        return frozenset(self._graph.outputs)

    def nodes(self) -> Sequence[Node]:
        graph = self._graph
        found: list[Node] = []
        for node, needed in zip(graph.nodes, graph.reads, strict=True):
            makes = tuple(v for v in node.output if v and v not in graph.static)
            if makes:
                size = sum(math.prod(graph.weights[v].dims) for v in needed if v in graph.weights)
                name = node.name or node.output[0]
                found.append(Node(name, node.op_type, frozenset(needed - graph.static), makes, size))
        return found

    def between(self, source: Any, target: Any, samples: Sequence[Arrays]) -> Cut:
        graph = self._graph
        if source is not None:  # whatever the value before it is called
            samples = [{source: next(iter(sample.values()))} for sample in samples]
        feeds, outputs = dict(samples[0]), [target] if target is not None else list(graph.outputs)
        nodes, read = between(graph, outputs, set(feeds))
        model = build(graph, nodes, {name: feeds[name] for name in read}, outputs, graph.weights)
        inferred = infer(model)
        known = {} if inferred is None else {v.name: v for v in inferred.output}
        for value in model.graph.output:
            kind = known[value.name].type.tensor_type.elem_type if value.name in known else 0
            if kind:  # some engines refuse outputs without a declared type
                value.CopyFrom(helper.make_tensor_value_info(value.name, kind, None))
        # Without a path: engines read the file of a network that has one.
        part = OnnxNetwork(self._network.complete(model), name=f"{self._network.name} to {outputs[0]}")
        names = [spec.name for spec in part.signature.inputs]
        return Cut(part, [{name: sample[name] for name in names} for sample in samples])

    def layers(self) -> tuple[Layer, ...]:
        graph, fixed = self._graph, self._fixed
        read = {name for needed in graph.reads for name in needed} | set(graph.outputs)
        found: list[Layer] = []
        for node, needed in zip(graph.nodes, graph.reads, strict=True):
            made = tuple(name for name in node.output if name in read and name not in fixed)
            if made and needed - fixed and node.op_type not in _NO_TENSORS:
                found.append(Layer.numbered(node.op_type, len(found), made))
        return tuple(found)

    def cut(self, layer: Layer, values: Mapping[str, np.ndarray], name: str) -> Cut:
        graph = self._graph
        nodes, read = between(graph, layer.outputs, self._fed - set(layer.outputs))
        missing = [n for n in (*read, *layer.outputs) if n not in values]
        if missing:
            raise EngineError(f"the value of {missing[0]} was not captured", stage="cut")
        used = {n: None for index in nodes for n in reads(graph.nodes[index])}
        read = sorted(read, key=list(used).index)  # in order of use, the same for identical layers
        feeds = {n: np.asarray(values[n]) for n in read if n not in self._fixed}
        if not feeds:
            raise EngineError("it reads nothing that depends on the inputs", stage="cut")
        made = build(graph, nodes, feeds, layer.outputs, self._network.weights())
        for fixed in (n for n in read if n in self._fixed):
            made.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values[fixed]), fixed))
        made.graph.name = "layer"
        for output in made.graph.output:  # no shape: it may depend on the values
            kind = helper.np_dtype_to_tensor_dtype(np.asarray(values[output.name]).dtype)
            output.CopyFrom(helper.make_tensor_value_info(output.name, kind, None))
        data = made.SerializeToString(deterministic=True)
        return Cut(OnnxNetwork(made, name=name), [feeds], _identity(made), data, ".onnx")


def _identity(model: onnx.ModelProto) -> str:
    """A hash of a layer in which its names do not count."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    whole = any(True for node in graph.node for _ in bodies(node))
    names: dict[str, str] = {}
    for node in graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        del node.metadata_props[:]
        if not whole:  # in subgraphs names refer to outer ones; these layers are equal only with equal names
            for part in (node.input, node.output):
                part[:] = [names.setdefault(n, f"v{len(names)}") if n else "" for n in part]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.get(value.name, value.name)
        value.ClearField("doc_string")
    for part in (graph.input, graph.initializer):
        ordered = sorted(part, key=lambda value: value.name)
        del part[:]
        part.extend(ordered)  # type: ignore[arg-type]
    return content_key(made.SerializeToString(deterministic=True))
