"""An ONNX twin with some of its segments put back into float32: without quantisers, or between casts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from twinnet.errors import EngineError, foreign_as
from twinnet.onnx.graph import OnnxGraph

__all__ = ["Part", "between_casts", "without_quantisers"]

_NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


@dataclass(frozen=True)
class Part:
    """A segment to keep: its nodes, the value it makes, and what the network has there.

    `weights` are real numbers by the twin's name of each, the network's own where they are known. `bounds` is the range
    that an activation of the network allows here, where the twin leaves it to a quantiser.
    """

    nodes: Sequence[int]
    target: str
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None


def without_quantisers(graph: OnnxGraph, parts: Sequence[Part]) -> onnx.ModelProto:
    """The model of `graph` with the quantisers of these parts taken out, and their weights as float32.

    Raises EngineError if a part has none to take out.
    """
    edit = _Edit(graph)
    for part in parts:
        if not edit.dequantise(part):
            raise EngineError(f"{part.target} has no quantiser that can be taken out", stage="edit")
    return edit.model()


def between_casts(graph: OnnxGraph, parts: Sequence[Part]) -> onnx.ModelProto:
    """The model of `graph`, which computes in a narrow format, with these parts in float32 between casts."""
    kinds = _element_types(graph.model)
    inside = {i for part in parts for i in part.nodes if graph.nodes[i].op_type != "Constant"}
    originals = {n: a for part in parts for n, a in part.weights.items()}
    made = {n for i in inside for n in graph.nodes[i].output if n and kinds.get(n) in _NARROW}
    used_outside = set(graph.outputs)
    for i, reads in enumerate(graph.reads):
        if i not in inside:
            used_outside |= reads
    edit = _Edit(graph)
    for i in sorted(inside):
        node = edit.nodes[i]
        if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute):
            raise EngineError(f"{node.op_type} contains a subgraph and cannot be kept in float", stage="edit")
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _NARROW:
                attribute.i = TensorProto.FLOAT
        for k, name in enumerate(node.input):
            if kinds.get(name) not in _NARROW:
                continue
            wide = f"{name}/float32"
            node.input[k] = wide
            if name in graph.weights:
                array = originals.get(name)
                edit.weight(wide, edit.array(name) if array is None else array)
            elif name not in made:
                edit.cast(name, wide, TensorProto.FLOAT)
        for k, name in enumerate(node.output):
            if name in made:
                node.output[k] = f"{name}/float32"
                if name in used_outside:
                    edit.cast(f"{name}/float32", name, kinds[name])
    return edit.model()


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    with foreign_as(
        lambda error: EngineError(f"the types of its values are not known: {error}", stage="edit")
    ):
        inferred = onnx.shape_inference.infer_shapes(model).graph
    found = {t.name: t.data_type for t in model.graph.initializer}
    for info in (*inferred.value_info, *inferred.input, *inferred.output):
        found[info.name] = info.type.tensor_type.elem_type
    return found


class _Edit:
    """A copy of a model being changed; what is no longer read is removed at the end."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self.nodes = []
        for node in graph.nodes:
            copied = onnx.NodeProto()
            copied.CopyFrom(node)
            self.nodes.append(copied)
        self._after: dict[str, list[onnx.NodeProto]] = {}
        self._weights: dict[str, np.ndarray] = {}
        self._instead: dict[str, str] = {}
        self._here: dict[int, dict[str, str]] = {}

    def array(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self._graph.weights[name])

    def weight(self, name: str, array: np.ndarray) -> None:
        self._weights[name] = np.ascontiguousarray(array, dtype=np.float32)

    def cast(self, source: str, target: str, to: int) -> None:
        nodes = self._after.setdefault(source, [])
        if not any(target in node.output for node in nodes):
            nodes.append(helper.make_node("Cast", [source], [target], name=f"{target}/cast", to=to))

    # -- quantisers ------------------------------------------------------------------------------------------------

    def dequantise(self, part: Part) -> bool:
        graph, done = self._graph, False
        inside = set(part.nodes)
        for i in part.nodes:
            node = graph.nodes[i]
            if node.op_type == "DequantizeLinear" and node.input[0] in graph.static:
                done = True
                name = f"{node.output[0]}/float32"
                if node.output[0] not in part.weights:
                    raise EngineError(f"the data of {node.output[0]} are not known", stage="edit")
                self.weight(name, part.weights[node.output[0]])
                for reader in self._readers(node.output[0]):
                    if reader in inside:
                        self._here.setdefault(reader, {})[node.output[0]] = name
            elif node.op_type == "QuantizeLinear" and node.input[0] not in graph.static:
                done = True
                self._bypass(node, part, inside)
        return done

    def _bypass(self, node: onnx.NodeProto, part: Part, inside: Collection[int]) -> None:
        """Let the readers of a quantiser's dequantised output read the quantiser's input instead."""
        held, source = node.output[0], node.input[0]
        real = [self._graph.nodes[i] for i in self._readers(held)]
        last = held == part.target or any(part.target in n.output for n in real)
        if last and part.bounds is not None:
            low, high = part.bounds
            bounded = f"{source}/bounded"
            names = [f"{bounded}/low", f"{bounded}/high"]
            self.weight(names[0], np.array(low))
            operands = [source, names[0]]
            if np.isfinite(high):
                self.weight(names[1], np.array(high))
                operands.append(names[1])
            self._after.setdefault(source, []).append(
                helper.make_node("Clip", operands, [bounded], name=bounded)
            )
            source = bounded
        for reader in real:
            if reader.op_type != "DequantizeLinear":
                continue
            name = reader.output[0]
            if last:
                self._instead[name] = source
                if name in self._graph.outputs:
                    self._after.setdefault(source, []).append(helper.make_node("Identity", [source], [name]))
            else:
                for i in self._readers(name):
                    if i in inside:
                        self._here.setdefault(i, {})[name] = source

    def _readers(self, name: str) -> list[int]:
        return [i for i, reads in enumerate(self._graph.reads) if name in reads]

    # -- the model -------------------------------------------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        graph = self._graph
        taken = {n for nodes in self._after.values() for node in nodes for n in node.output}
        nodes: list[onnx.NodeProto] = []
        for name in graph.inputs:
            nodes += self._behind(name)
        for i, node in enumerate(self.nodes):
            here = self._here.get(i, {})
            for k, name in enumerate(node.input):
                node.input[k] = here.get(name, self._instead.get(name, name))
            if any(n in taken for n in node.output):  # an output that another node makes now
                continue
            nodes.append(node)
            for name in node.output:
                nodes += self._behind(name)
        made = onnx.ModelProto()
        made.CopyFrom(graph.model)
        del made.graph.node[:], made.graph.initializer[:], made.graph.value_info[:]
        made.graph.node.extend(_used(nodes, graph.outputs))
        read = {n for node in made.graph.node for n in node.input} | set(graph.outputs)
        read |= _inner_reads(made)
        made.graph.initializer.extend(t for n, t in graph.weights.items() if n in read)
        made.graph.initializer.extend(
            numpy_helper.from_array(a, n) for n, a in self._weights.items() if n in read
        )
        return made

    def _behind(self, name: str) -> list[onnx.NodeProto]:
        found = []
        for node in self._after.get(name, ()):
            found.append(node)
            for made in node.output:
                found += self._behind(made)
        return found


def _inner_reads(model: onnx.ModelProto) -> set[str]:
    return {n for reads in OnnxGraph(model).reads for n in reads}


def _used(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that an output depends on, in order."""
    wanted = set(outputs)
    kept: list[onnx.NodeProto] = []
    listed = list(nodes)
    holder = onnx.ModelProto()
    holder.graph.node.extend(listed)
    for node, reads in zip(reversed(listed), reversed(OnnxGraph(holder).reads), strict=True):
        if any(n in wanted for n in node.output):
            kept.append(node)
            wanted |= reads
    return kept[::-1]
