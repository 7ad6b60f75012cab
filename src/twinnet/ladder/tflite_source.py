"""TFLite files as ladders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from twinnet.job import Arrays
from twinnet.ladder.graph_source import GraphSource, Node
from twinnet.tflite.cut import Cutter, between
from twinnet.tflite.names import module_of
from twinnet.tflite.network import TfliteNetwork

__all__ = ["TfliteSource"]


class TfliteSource(GraphSource):
    """A TFLite file, cut between its operators."""

    @cached_property
    def _held(self) -> list[Node]:
        graph = self.network.model.main
        moving: set[int] = set(graph.inputs)
        found = []
        for op in graph.operators:
            reads = frozenset(t for t in op.inputs if t in moving)
            if not reads:
                continue
            makes = tuple(t for t in op.outputs if t >= 0)
            moving.update(makes)
            held = [graph.tensors[t] for t in op.inputs if t >= 0 and graph.tensors[t].data is not None]
            weights = (t for t in held if t.dtype not in ("int32", "int64", "bool") or t.steps is not None)
            size = sum(math.prod(int(n) for n in t.shape or ()) for t in weights)
            name = graph.tensors[makes[0]].name
            found.append(Node(module_of(name) or name, op.op, reads, makes, size))
        return found

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self.network.data)

    def _nodes(self) -> Sequence[Node]:
        return self._held

    def _outputs(self) -> frozenset[Any]:
        return frozenset(self.network.model.main.outputs)

    def _part(self, source: Any, target: Any, sample: Arrays, given: Arrays | None) -> Any:
        graph = self.network.model.main
        fed = list(graph.inputs) if source is None else [source]
        outputs = [target] if target is not None else list(graph.outputs)
        operators, read = between(graph, outputs, set(fed))
        data, _ = self._cutter.cut(operators, [t for t in fed if t in read], outputs)
        name = graph.tensors[outputs[0]].name
        return TfliteNetwork(data, name=f"{self.network.name} to {name}")

    def _renamed(self, part: Any, arrays: Arrays) -> Arrays:
        tensors = self.network.model.main.tensors
        own = {tensors[i].name: label for label, i in self.network.model.inputs}
        names = [spec.name for spec in part.signature.inputs]
        if all(own.get(name) in arrays for name in names):
            return {name: arrays[own[name]] for name in names}
        return dict(zip(names, arrays.values(), strict=True))
