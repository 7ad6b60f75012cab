"""A quantised graph seen through: the same computation in real numbers, with its steps beside it.

Whole numbers become what they stand for. QuantizeLinear becomes a layer that keeps its values and may be off by half a
step; DequantizeLinear becomes nothing; weights become real, each with the half step it may be off. So one walk over
this graph tells how far the declared steps, and nothing else, may move each result: the budget of a quantised twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from twinnet.layers import kinds
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.step import Step

__all__ = ["Quantised", "is_quantised", "seen_through"]

_STEPS = {"quantize_linear", "dequantize_linear", "dynamic_quantize_linear"}


@dataclass(frozen=True)
class Quantised:
    """`graph` has the names of the original, and real values under them.

    `steps` are those of tensors that hold whole numbers, or that were just read from such; `halves` how far a
    weight may be off; `sources` the tensor in floating point that each of `steps` was made from, where one was.
    """

    graph: Graph
    steps: Mapping[str, Step] = field(default_factory=dict)
    halves: Mapping[str, torch.Tensor] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """For each weight, where its whole number is the smallest or the largest there is."""


def is_quantised(graph: Graph) -> bool:
    """Whether a graph has quantised values.

    >>> is_quantised(Graph((Layer("relu", ("x",), ("y",)),), ("x",), ("y",)))
    False
    """
    return any(layer.kind in _STEPS for layer in graph)


def seen_through(graph: Graph) -> Quantised:
    """The graph in real numbers.

    >>> step = {"s": torch.tensor(0.5), "z": torch.tensor(3, dtype=torch.uint8)}
    >>> layers = (Layer("quantize_linear", ("x", "s", "z"), ("q",), {"to": torch.uint8}),
    ...           Layer("dequantize_linear", ("q", "s", "z"), ("y",)))
    >>> seen = seen_through(Graph(layers, ("x",), ("y",), step))
    >>> [layer.kind for layer in seen.graph], str(seen.steps["q"]), seen.sources["q"]
    (['quantised', 'identity'], 'steps of 0.5 from 3', 'x')
    """
    work = _Work(graph)
    for index, layer in enumerate(graph):
        work.see(index, layer)
    made = replace(graph, layers=tuple(work.done()), constants=work.constants)
    return Quantised(made, work.steps, work.halves, work.sources, work.limits)


class _Work:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layers: list[Layer] = []
        self.constants: dict[str, Any] = dict(graph.constants)
        self.steps: dict[str, Step] = {}
        self.halves: dict[str, torch.Tensor] = {}
        self.limits: dict[str, torch.Tensor] = {}
        self.sources: dict[str, str] = {}
        self._open: set[str] = set()
        self._ones: set[str] = set()
        self._moved = self._moved_constants()

    def see(self, index: int, layer: Layer) -> None:
        made = {
            "quantize_linear": self._quantize,
            "dequantize_linear": self._dequantize,
            "dynamic_quantize_linear": self._dynamic,
            "conv_integer": self._product,
            "matmul_integer": self._product,
            "cast": self._cast,
        }.get(layer.kind, self._other)(layer)
        if made is not None:
            self.layers.append(made)

    def done(self) -> list[Layer]:
        """The layers; scales that went into the weights are left out behind them."""
        return [
            replace(layer, kind="identity", inputs=tuple(n for n in layer.inputs if n not in self.constants))
            if layer.kind == "mul" and layer.outputs[0] in self._ones
            else layer
            for layer in self.layers
        ]

    # -- one layer -----------------------------------------------------------------------------------------------

    def _quantize(self, layer: Layer) -> Layer:
        step = self._step(layer, layer.attrs.get("to"))
        source, q = layer.inputs[0], layer.outputs[0]
        if step is None or source is None:
            return layer
        self.steps[q] = step
        self.sources[q] = source
        return replace(layer, kind="quantised", inputs=(source,), attrs={"step": step})

    def _dequantize(self, layer: Layer) -> Layer | None:
        q, name = layer.inputs[0], layer.outputs[0]
        step = self._step(layer, None)
        if q is None or step is None:
            return layer
        held = self.constants.get(q)
        if isinstance(held, torch.Tensor) and q not in self.steps:
            return self._weight(name, held, step)
        known = self.steps.get(q)
        if known is None:
            return layer
        if not known.same(step):
            # Written in one step and read in another: what comes out is not what went in.
            return replace(layer, kind="reread", inputs=(q,), attrs={"written": known, "read": step})
        self.steps[name] = known
        if q in self.sources:
            self.sources[name] = self.sources[q]
        return replace(layer, kind="identity", inputs=(q,), attrs={})

    def _weight(self, name: str, held: torch.Tensor, step: Step) -> None:
        """A weight in whole numbers becomes real; no layer is left."""
        q = held.numpy()
        info = torch.iinfo(held.dtype)
        self.constants[name] = torch.from_numpy(np.asarray(step.to_real(q)))
        half = np.broadcast_to(step.half(q.ndim), q.shape)
        self.halves[name] = torch.from_numpy(np.array(half, np.float32))
        self.limits[name] = (held == info.min) | (held == info.max) | (held == -info.max)

    def _dynamic(self, layer: Layer) -> Layer:
        """Scale and zero point are made from the data: the values stay real, with scale 1 and zero point 0."""
        if layer.outputs[0]:
            self._open.update(n for n in layer.outputs if n)
            self.sources[layer.outputs[0]] = layer.inputs[0] or ""
        return replace(layer, kind="quantised", attrs={"dynamic": True})

    def _product(self, layer: Layer) -> Layer:
        """Of data that became real: the weights too, and the sum is no whole number any more."""
        x, w = layer.inputs[:2]
        weight = self.constants.get(w) if w is not None else None
        if x not in self._open or not isinstance(weight, torch.Tensor) or w is None:
            return layer
        zero = layer.inputs[3] if len(layer.inputs) > 3 else None
        offset = self.constants.get(zero) if zero is not None else None
        real = weight.to(torch.float32)
        if isinstance(offset, torch.Tensor):
            o = offset.to(torch.float32).reshape(-1)
            if o.numel() > 1:
                axis = 0 if layer.kind == "conv_integer" else real.dim() - 1
                o = o.reshape([-1 if i == axis else 1 for i in range(real.dim())])
            real = real - o
        name = f"{w}/real"
        info = torch.iinfo(weight.dtype)
        scale = self._scale_behind(layer, real)
        self.constants[name] = real * scale
        self.halves[name] = torch.full(real.shape, 0.5) * scale
        self.limits[name] = (weight == info.min) | (weight == info.max)
        self._open.add(layer.outputs[0])
        return replace(layer, kind=layer.kind.removesuffix("_integer"), inputs=(x, name))

    def _scale_behind(self, layer: Layer, weight: torch.Tensor) -> torch.Tensor:
        """The weight's scale, which is multiplied in behind the product; there it becomes 1."""
        graph, name = self.graph, layer.outputs[0]
        for kind in ("cast", "mul"):
            readers = [graph.layers[i] for i in graph.consumers.get(name, ())]
            if len(readers) != 1 or readers[0].kind != kind:
                return torch.ones(())
            if kind == "cast":
                name = readers[0].outputs[0]
                continue
            other = next((n for n in readers[0].inputs if n != name and n is not None), "")
            makes = graph.layers[graph.producer[other]] if other in graph.producer else None
            held = [n for n in (makes.inputs if makes else ()) if n in graph.constants]
            if makes is None or makes.kind != "mul" or len(held) != 1 or held[0] is None:
                break
            scale = graph.constants[held[0]].to(torch.float32)
            if scale.numel() > 1 and (layer.kind != "matmul_integer" or scale.dim() != 1):
                break
            self._ones.add(other)
            return scale if scale.numel() > 1 else scale.reshape(())
        return torch.ones(())

    def _cast(self, layer: Layer) -> Layer:
        if layer.inputs[0] in self._open:
            return replace(layer, kind="identity", inputs=layer.inputs[:1], attrs={})
        return layer

    def _other(self, layer: Layer) -> Layer:
        """Layers that only move whole numbers move what these stand for; a moved weight is read as real."""
        source = layer.inputs[0] if layer.inputs else None
        if source in self._moved and layer.outputs[0] in self._moved:
            step = self._moved[layer.outputs[0]]
            self.steps[layer.outputs[0]] = step
            if source in self.graph.constants:
                name = f"{source}/real"
                if name not in self.constants:
                    self._weight(name, self.graph.constants[source], step)
                return replace(layer, inputs=(name, *layer.inputs[1:]))
        elif source in self.steps and kinds.get(layer.kind).exact and self.steps[source].scale.size == 1:
            for name in layer.outputs:
                if name:
                    self.steps[name] = self.steps[source]
        return layer

    # -- helpers -------------------------------------------------------------------------------------------------

    def _step(self, layer: Layer, to: torch.dtype | None) -> Step | None:
        """The step of a layer with a constant scale that lies on one axis at most."""
        scale = self._constant(layer, "scale", 1)
        zero = self._constant(layer, "zero", 2)
        if scale is None or scale.dim() > 1 or layer.attrs.get("block"):
            return None
        to = to or (zero.dtype if zero is not None else torch.uint8)
        if to.is_floating_point:
            return None
        info = torch.iinfo(to)
        low, high = layer.attrs.get("qmin", info.min), layer.attrs.get("qmax", info.max)
        offset = np.zeros(()) if zero is None else zero.double().numpy()
        axis, name = int(layer.attrs.get("axis", 1)), str(to).removeprefix("torch.")
        return Step(scale.double().numpy(), offset, float(low), float(high), axis, name)

    def _constant(self, layer: Layer, name: str, place: int) -> torch.Tensor | None:
        value = layer.attrs.get(name)
        if value is None and place < len(layer.inputs) and layer.inputs[place] is not None:
            value = self.graph.constants.get(layer.inputs[place] or "")
        return value if value is None or isinstance(value, torch.Tensor) else torch.as_tensor(value)

    def _moved_constants(self) -> dict[str, Step]:
        """Whole numbers that are only moved on their way from a weight to the layer that reads them."""
        found: dict[str, Step] = {}
        graph = self.graph
        for layer in graph:
            if layer.kind != "dequantize_linear" or layer.inputs[0] is None:
                continue
            step = self._step(layer, None)
            path = [layer.inputs[0]]
            while path[-1] in graph.producer:
                before = graph.layers[graph.producer[path[-1]]]
                if not kinds.get(before.kind).exact or not before.inputs or before.inputs[0] is None:
                    break
                path.append(before.inputs[0])
            if step is not None and step.scale.size == 1 and len(path) > 1 and path[-1] in graph.constants:
                found.update(dict.fromkeys(path, step))
        return found
