"""ONNX graphs with the look-ups that cutting and tapping need."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper

from twinnet.onnx.shapes import infer

__all__ = ["OnnxGraph", "Piece", "bodies", "captured", "holds_steps", "model_nodes", "reads", "walk_nodes"]

_RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The subgraphs of a control-flow node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def model_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a model, including those of its functions and subgraphs."""
    yield from walk_nodes([*model.graph.node, *(node for f in model.functions for node in f.node)])


def walk_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """These nodes and those of their subgraphs."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        for body in bodies(node):
            stack.extend(body.node)


def reads(node: onnx.NodeProto) -> dict[str, None]:
    """Names a node reads, in order, including those its subgraphs take from the outer scope."""
    names = {name: None for name in node.input if name}
    for body in bodies(node):
        names.update(captured(body))
    return names


def captured(body: onnx.GraphProto) -> dict[str, None]:
    """Names that a subgraph takes from outside, in order of first use."""
    made = {i.name for i in body.input} | {t.name for t in body.initializer}
    made |= {t.values.name for t in body.sparse_initializer}
    found: dict[str, None] = {}
    for node in body.node:
        found.update({name: None for name in reads(node) if name not in made})
        made.update(node.output)
    found.update({o.name: None for o in body.output if o.name not in made})
    return found


def holds_steps(model: onnx.ModelProto) -> bool:
    """Whether a model has operators that quantise or read quantised values."""
    return any(
        n.op_type.lower().endswith("quantizelinear") or n.op_type.startswith(("QLinear", "QGemm"))
        for n in model.graph.node
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive nodes of a graph: their inputs, the wanted outputs, and values passed on to later pieces."""

    start: int
    stop: int
    inputs: tuple[str, ...]
    wanted: tuple[str, ...]
    passed: tuple[str, ...]


class OnnxGraph:
    """The top-level graph of a model with the look-ups that cutting needs."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes: Sequence[onnx.NodeProto] = list(model.graph.node)
        self.reads = [set(reads(n)) for n in self.nodes]
        self.weights = {t.name: t for t in model.graph.initializer}
        sparse = {t.values.name for t in model.graph.sparse_initializer}
        self.inputs = tuple(
            i.name for i in model.graph.input if i.name not in self.weights and i.name not in sparse
        )
        self.outputs = tuple(o.name for o in model.graph.output)
        self._sparse = sparse

    @cached_property
    def producer(self) -> dict[str, int]:
        """Index of the node that makes each value."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def random(self) -> str:
        """The first node that draws random numbers without a seed, as `name (operator)`; empty if none does."""
        for node in self.nodes:
            if node.op_type in _RANDOM and not any(a.name == "seed" for a in node.attribute):
                return f"{node.name or node.output[0]} ({node.op_type})"
        return ""

    @cached_property
    def static(self) -> frozenset[str]:
        """Values that depend on no input: weights, constants and what is computed from them."""
        known = set(self.weights) | self._sparse
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if reads <= known and node.op_type not in _RANDOM:
                known.update(filter(None, node.output))
        return frozenset(known)

    @cached_property
    def observable(self) -> tuple[str, ...]:
        """Values that depend on an input, in execution order; only tensors can be observed."""
        return tuple(name for node in self.nodes for name in node.output if name and name not in self.static)

    def sizes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Size in bytes of each value whose shape can be inferred, for inputs of the given shapes."""
        inferred = infer(self.model, shapes)
        if inferred is None:  # an estimate only: without it the graph is cut by node count
            return {}
        found: dict[str, int] = {}
        for info in inferred.value_info:
            tensor = info.type.tensor_type
            if not tensor.HasField("shape") or tensor.elem_type in (0, onnx.TensorProto.STRING):
                continue
            dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
            if min(dims, default=0) >= 0:
                itemsize = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).itemsize
                found[info.name] = math.prod(dims) * itemsize
        return found

    def with_outputs(self, names: Iterable[str]) -> onnx.ModelProto:
        """The model with further outputs; nodes and weights are those of the original."""
        tapped = onnx.ModelProto()
        tapped.CopyFrom(self.model)
        have = set(self.outputs)
        for name in names:
            if name not in have:
                tapped.graph.output.append(helper.make_empty_tensor_value_info(name))
                have.add(name)
        return tapped

    def with_values(self, given: Mapping[str, np.ndarray], names: Iterable[str]) -> onnx.ModelProto:
        """The model with `given` values as inputs in place of what its nodes compute, and further outputs."""
        changed = self.with_outputs(n for n in names if n not in given)
        for node in changed.graph.node:
            for i, name in enumerate(node.output):
                if name in given:
                    node.output[i] = f"{name}/computed"
        for name, array in given.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            changed.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        kept = [o for o in changed.graph.output if o.name not in given]
        del changed.graph.output[:]
        changed.graph.output.extend(kept)
        # Declared shapes may not hold for the given values.
        del changed.graph.value_info[:]
        return changed

    def pieces(self, watch: Collection[str], sizes: Mapping[str, int], budget: int) -> list[Piece]:
        """Consecutive pieces whose watched tensors take about `budget` bytes each.

        A cut is made only where every value that crosses it is watched, static or an input: fusions happen between
        watched tensors, so a cut there separates no fused nodes.
        """
        watched = set(watch)
        typical = (
            int(np.median([sizes[n] for n in watched if n in sizes]))
            if any(n in sizes for n in watched)
            else 0
        )
        last_use: dict[str, int] = {}
        for i, reads in enumerate(self.reads):
            for name in reads:
                last_use[name] = i
        end = len(self.nodes)
        for name in self.outputs:
            last_use[name] = end
        cuts = [0]
        live: set[str] = set()
        filled = 0
        for i, node in enumerate(self.nodes):
            for name in filter(None, node.output):
                if name in watched:
                    filled += sizes.get(name, typical)
                if name not in self.static and last_use.get(name, -1) > i:
                    live.add(name)
            live = {n for n in live if last_use[n] > i} if filled > budget else live
            if filled > budget and i + 1 < end and live <= watched:
                cuts.append(i + 1)
                filled = 0
        cuts.append(end)
        return [self._piece(a, b, watched, last_use) for a, b in pairwise(cuts) if a < b or not end]

    def _piece(self, start: int, stop: int, watched: set[str], last_use: Mapping[str, int]) -> Piece:
        made = [n for node in self.nodes[start:stop] for n in node.output if n]
        inside = set(made)
        needed = {n for reads in self.reads[start:stop] for n in reads}
        inputs = tuple(sorted(n for n in needed - inside if n not in self.static))
        wanted = tuple(n for n in made if n in watched or n in self.outputs)
        passed = tuple(
            n for n in made if n not in self.static and last_use.get(n, -1) >= stop and n not in wanted
        )
        return Piece(start, stop, inputs, wanted, passed)
