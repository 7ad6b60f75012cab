"""Parts of TFLite files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from twinnet.cache import content_key
from twinnet.cutting import Cut, Layer, Node
from twinnet.errors import EngineError
from twinnet.job import Arrays
from twinnet.tflite.cut import Cutter, between
from twinnet.tflite.ends import stored
from twinnet.tflite.model import Tensor
from twinnet.tflite.names import module_of
from twinnet.tflite.network import TfliteNetwork
from twinnet.tflite.view import View

__all__ = ["TfliteCutter"]


class TfliteCutter:
    """One TFLite file. A layer is an operator with the constants and the shape chain that it reads."""

    def __init__(self, network: TfliteNetwork) -> None:
        self._network = network
        self._graph = network.model.main
        self._view = View(self._graph)

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self._network.data)

    @cached_property
    def _fixed(self) -> frozenset[int]:
        """Tensors that depend on shapes only, constants among them."""
        graph = self._graph
        known = {t.index for t in graph.tensors if t.data is not None}
        for operator in graph.operators:
            reads = {t for t in operator.inputs if t >= 0}
            if operator.op == "SHAPE" or reads <= known:
                known.update(operator.outputs)
        return frozenset(known)

    @property
    def outputs(self) -> frozenset[Any]:
        return frozenset(self._graph.outputs)

    def nodes(self) -> Sequence[Node]:
        graph = self._graph
        moving: set[int] = set(graph.inputs)
        found: list[Node] = []
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

    def between(self, source: Any, target: Any, samples: Sequence[Arrays]) -> Cut:
        graph = self._graph
        fed = list(graph.inputs) if source is None else [source]
        outputs = [target] if target is not None else list(graph.outputs)
        operators, read = between(graph, outputs, set(fed))
        data, _ = self._cutter.cut(operators, [t for t in fed if t in read], outputs)
        part = TfliteNetwork(data, name=f"{self._network.name} to {graph.tensors[outputs[0]].name}")
        return Cut(part, [self._renamed(part, sample) for sample in samples])

    def _renamed(self, part: TfliteNetwork, arrays: Arrays) -> Arrays:
        """Arrays under the names that a part gives its inputs."""
        own = {self._graph.tensors[i].name: label for label, i in self._network.model.inputs}
        names = [spec.name for spec in part.signature.inputs]
        if all(own.get(name) in arrays for name in names):
            return {name: arrays[own[name]] for name in names}
        return dict(zip(names, arrays.values(), strict=True))

    def layers(self) -> tuple[Layer, ...]:
        graph = self._graph
        read = {t for operator in graph.operators for t in operator.inputs} | set(graph.outputs)
        found: list[Layer] = []
        for operator in graph.operators:
            made = [t for t in operator.outputs if t in read and t not in self._fixed]
            if made and {t for t in operator.inputs if t >= 0} - self._fixed:
                names = tuple(graph.tensors[t].name for t in made)
                found.append(Layer.numbered(operator.op, len(found), names))
        return tuple(found)

    def cut(self, layer: Layer, values: Mapping[str, np.ndarray], name: str) -> Cut:
        graph = self._graph
        by_name = {t.name: t for t in graph.tensors}
        if max(Counter(t.name for t in graph.tensors)[n] for n in layer.outputs) > 1:
            raise EngineError(f"several tensors are called {layer.outputs[0]}", stage="cut")
        outputs = [by_name[n].index for n in layer.outputs]
        fed = (set(graph.producer) | set(graph.inputs)) - self._fixed - set(outputs)
        operators, read = between(graph, outputs, fed)
        missing = [graph.tensors[t].name for t in read if graph.tensors[t].name not in values]
        if missing:
            raise EngineError(f"the value of {missing[0]} was not captured", stage="cut")
        data, _ = self._cutter.cut(operators, read, outputs)
        network = TfliteNetwork(data, name=name)
        given = [self._stored(graph.tensors[t], values) for t in read]
        sample = {label: a for (label, _), a in zip(network.model.inputs, given, strict=True)}
        shapes = repr([(a.shape, str(a.dtype)) for a in given])
        return Cut(network, [sample], content_key(shapes, self._content(operators, read)), data, ".tflite")

    def _stored(self, tensor: Tensor, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return stored(tensor, self._view, np.asarray(values[tensor.name]))

    def _content(self, operators: list[int], read: list[int]) -> str:
        """What the operators are and hold; tensors by the order in which they come, not by name."""
        order: dict[int, int] = {t: i for i, t in enumerate(read)}
        words: list[str] = []
        for index in operators:
            operator = self._graph.operators[index]
            own = index if operator.custom else ""  # what the options of a custom operator say is not known
            words.append(f"{operator.op} {own} {sorted(operator.options.items())!r}")
            for number in (*operator.inputs, *operator.outputs):
                if number < 0:
                    words.append("-")
                    continue
                tensor = self._graph.tensors[number]
                held = b"" if tensor.data is None else bytes(tensor.data)
                place = order.setdefault(number, len(order))
                words.append(f"{place} {tensor.dtype} {tensor.shape} {tensor.steps!r} {content_key(held)}")
        return "\n".join(words)
