"""Rewrites integer products as the real products they stand for.

Dynamic quantisation takes the step of its data from the data: DynamicQuantizeLinear, an integer product, and a
multiplication by both scales. Here the data stay real and may be off by half a step, and the weights become real by
their scale: the same computation, in which every rounding is an error of known size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from twinnet.layers import kinds
from twinnet.layers.graph import Graph, Layer

__all__ = ["MOVES", "in_real_numbers", "rounded_resizes"]

_PRODUCTS = {"conv_integer": "conv", "matmul_integer": "matmul"}


def in_real_numbers(graph: Graph) -> tuple[Graph, dict[str, torch.Tensor]]:
    """The graph without integer products, and half a step for each weight that became real.

    >>> layers = (Layer("dynamic_quantize_linear", ("x",), ("q", "s", "z")),
    ...           Layer("matmul_integer", ("q", "w", "z"), ("p",)), Layer("cast", ("p",), ("f",)),
    ...           Layer("mul", ("s", "ws"), ("m",)), Layer("mul", ("f", "m"), ("y",)))
    >>> held = {"w": torch.tensor([[3], [-2]], dtype=torch.int8), "ws": torch.tensor(0.5)}
    >>> real, halves = in_real_numbers(Graph(layers, ("x",), ("y",), held))
    >>> real.constants["w/real"].tolist(), halves["w/real"].tolist()
    ([[1.5], [-1.0]], [[0.25], [0.25]])
    """
    moved = _moved_weights(graph)
    if not moved and not any(layer.kind in _PRODUCTS for layer in graph):
        return graph, {}
    work = _Work(graph, moved)
    for layer in graph:
        work.see(layer)
    return replace(graph, layers=tuple(work.done()), constants=work.constants), work.halves


MOVES = {
    "max_pool",
    "reshape",
    "transpose",
    "flatten",
    "squeeze",
    "unsqueeze",
    "slice",
    "identity",
    "expand",
}
"""Kinds that leave integers as they are."""


def rounded_resizes(graph: Graph) -> Graph:
    """The graph with an interpolation of integers as what it stands for: made real, interpolated, and rounded again.

    >>> layers = (Layer("quantize_linear", ("x", "s", "z"), ("q",)),
    ...           Layer("resize", ("q",), ("r",), {"mode": "linear"}))
    >>> held = {"s": torch.tensor(0.5), "z": torch.tensor(3, dtype=torch.uint8)}
    >>> [layer.kind for layer in rounded_resizes(Graph(layers, ("x",), ("r",), held))]
    ['quantize_linear', 'dequantize_linear', 'resize', 'quantize_linear']
    """
    if not any(layer.kind == "resize" for layer in graph):
        return graph
    steps: dict[str, tuple[tuple[str | None, ...], dict[str, Any]]] = {}
    layers: list[Layer] = []
    for layer in graph:
        source = layer.inputs[0] if layer.inputs else None
        if layer.kind == "quantize_linear":
            steps[layer.outputs[0]] = layer.inputs[1:], dict(layer.attrs)
        elif (
            layer.kind in MOVES
            and source in steps
            and graph.constants.get(steps[source][0][0] or "") is not None
        ):
            steps[layer.outputs[0]] = steps[source]
        elif layer.kind == "resize" and source in steps and layer.attrs.get("mode", "nearest") != "nearest":
            how, attrs = steps[source]
            made, out = f"{source}/real", layer.outputs[0]
            layers.append(Layer("dequantize_linear", (source, *how), (made,), {"axis": attrs.get("axis", 1)}))
            layers.append(replace(layer, inputs=(made, *layer.inputs[1:]), outputs=(f"{out}/real",)))
            # Kernels cut off what they interpolate, and are off by up to a whole step.
            cut = {**attrs, "slack": 0.5}
            layers.append(Layer("quantize_linear", (f"{out}/real", *how), (out,), cut))
            steps[out] = steps[source]
            continue
        layers.append(layer)
    return replace(graph, layers=tuple(layers))


class _Work:
    def __init__(self, graph: Graph, moved: dict[str, Layer]) -> None:
        self.graph = graph
        self.layers: list[Layer] = []
        self.constants: dict[str, Any] = dict(graph.constants)
        self.halves: dict[str, torch.Tensor] = {}
        self._moved = moved
        self._real: set[str] = set()
        self._ones: set[str] = set()

    def see(self, layer: Layer) -> None:
        source = layer.inputs[0] if layer.inputs else None
        if layer.kind == "dynamic_quantize_linear":
            self._real.update(n for n in layer.outputs if n)
            layer = replace(layer, kind="dynamic_step")
        elif layer.kind in _PRODUCTS and source in self._real:
            layer = self._product(layer)
        elif layer.kind == "cast" and source in self._real:
            layer = replace(layer, kind="identity", inputs=layer.inputs[:1], attrs={})
        elif layer.kind == "dequantize_linear" and source in self._moved:
            return
        elif layer.outputs[0] in self._moved:
            reader = self._moved[layer.outputs[0]]
            if source in self.graph.constants:
                layer = self._moved_weight(layer, reader)
            if layer.outputs[0] == reader.inputs[0]:  # what it moves is real now and needs no dequantising
                layer = replace(layer, outputs=reader.outputs)
        self.layers.append(layer)

    def done(self) -> list[Layer]:
        """The layers; scales that are now part of the weights are no longer multiplied in."""
        return [
            replace(layer, kind="identity", inputs=tuple(n for n in layer.inputs if n not in self.constants))
            if layer.kind == "mul" and layer.outputs[0] in self._ones
            else layer
            for layer in self.layers
        ]

    def _product(self, layer: Layer) -> Layer:
        data, name, _, offset = (*layer.inputs, None, None)[:4]
        weight = self.constants.get(name or "")
        if weight is None:
            return layer
        zero = self.constants.get(offset or "")
        axis = 0 if layer.kind == "conv_integer" else weight.dim() - 1
        real = (
            weight.double() if zero is None else weight.double() - _along(zero.double(), axis, weight.dim())
        )
        scale = _along(self._scale_behind(layer).double(), axis, weight.dim())
        made = f"{name}/real"
        self.constants[made] = (real * scale).float()
        self.halves[made] = torch.full(real.shape, 0.5).double() * scale
        self._real.add(layer.outputs[0])
        return replace(layer, kind=_PRODUCTS[layer.kind], inputs=(data, made))

    def _scale_behind(self, layer: Layer) -> torch.Tensor:
        """The scale of a weight, which is multiplied in after the product and becomes 1 there."""
        graph, name = self.graph, layer.outputs[0]
        for kind in ("cast", "mul"):
            readers = [graph.layers[i] for i in graph.consumers.get(name, ())]
            if len(readers) != 1 or readers[0].kind != kind:
                break
            if kind == "cast":
                name = readers[0].outputs[0]
                continue
            other = next((n for n in readers[0].inputs if n != name and n is not None), "")
            makes = graph.layers[graph.producer[other]] if other in graph.producer else None
            if makes is None or makes.kind != "mul":
                break
            held = [graph.constants[n] for n in makes.inputs if n is not None and n in graph.constants]
            scale = next(iter(held), None)
            if scale is None or len(held) != 1:
                break
            # A scale per column is right along the last axis only; elsewhere it would broadcast differently.
            if scale.numel() == 1 or layer.kind == "matmul_integer":
                self._ones.add(other)
                return scale
        return torch.ones(())

    def _moved_weight(self, layer: Layer, reader: Layer) -> Layer:
        """An integer weight of which a part is selected before it is dequantised, as in an embedding."""
        name, *rest = layer.inputs
        _, step, offset = (*reader.inputs, None)[:3]
        weight = self.graph.constants[name or ""]
        scale = self.graph.constants[step or ""].double().reshape(())
        zero = self.graph.constants.get(offset or "")
        made = f"{name}/real"
        centred = weight.double() if zero is None else weight.double() - zero.double().reshape(())
        self.constants[made] = (centred * scale).float()
        self.halves[made] = torch.full(weight.shape, 0.5).double() * scale
        return replace(layer, inputs=(made, *rest))


def _along(values: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    return values.reshape(()) if values.numel() == 1 else kinds.along(values, axis, rank)


def _moved_weights(graph: Graph) -> dict[str, Layer]:
    """Integers that are only moved from a weight to where they are dequantised, and the layer that does that."""
    found: dict[str, Layer] = {}
    for layer in graph:
        source, step = (*layer.inputs, None, None)[:2]
        scale = graph.constants.get(step or "")
        if layer.kind != "dequantize_linear" or scale is None or scale.numel() != 1:
            continue
        path = [source or ""]
        while path[-1] in graph.producer:
            before = graph.layers[graph.producer[path[-1]]]
            source = next(iter(before.inputs), None)
            if not kinds.get(before.kind).exact or source is None:
                break
            path.append(source)
        alone = all(len(graph.consumers.get(n, ())) == 1 for n in path[:-1])
        if len(path) > 1 and path[-1] in graph.constants and alone:
            found.update(dict.fromkeys(path[:-1], layer))
    return found
