"""Quantised twins: which of their values hold a tensor of the network, and with which steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from twinnet.layers.graph import Graph, Layer
from twinnet.layers.integer import MOVES
from twinnet.pairing.transforms import IDENTITY, Transform

__all__ = [
    "carriers",
    "clamped",
    "folded",
    "is_quantised",
    "quantised_names",
    "raw_values",
    "steps",
    "steps_of_all",
    "unquantised",
]

QUANTISERS = ("quantize_linear", "dequantize_linear")
ROUNDERS = (*QUANTISERS, "dynamic_step")
_HELD = "_quantized"
_FOLDED = {"dequantize_linear", "mul", "identity"}


def is_quantised(graph: Graph | None) -> bool:
    """Whether a graph has quantised weights or values."""
    held = {*QUANTISERS, "dynamic_quantize_linear"}
    return graph is not None and any(layer.kind in held for layer in graph)


def folded(graph: Graph) -> Graph:
    """The graph with its dequantised weights as constants, under the names of the values that held them.

    >>> import torch
    >>> q = Layer("dequantize_linear", ("w_q", "s", "z"), ("w",), {"axis": 0})
    >>> constants = {"w_q": torch.tensor([3, -1]), "s": torch.tensor(0.5), "z": torch.tensor(1)}
    >>> folded(Graph((q, Layer("mul", ("x", "w"), ("y",))), ("x",), ("y",), constants)).constants["w"]
    tensor([ 1., -1.])
    """
    import torch

    from twinnet.layers import kinds

    constants: dict[str, Any] = dict(graph.constants)
    layers: list[Layer] = []
    for layer in graph:
        held = [constants.get(n) for n in layer.inputs if n is not None]
        if layer.kind not in _FOLDED or any(value is None for value in held):
            layers.append(layer)
            continue
        operands = (None if n is None else _wide(constants[n]) for n in layer.inputs)
        for name, value in zip(layer.outputs, kinds.get(layer.kind).evaluate(layer.attrs, *operands)):
            constants[name] = value.to(torch.float32) if value.is_floating_point() else value
    return replace(graph, layers=tuple(layers), constants=constants)


def unquantised(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """The graph without the layers that round its data, and what each value was that they made.

    >>> layers = (Layer("quantize_linear", ("x", "s"), ("q",)), Layer("dequantize_linear", ("q", "s"), ("r",)),
    ...           Layer("relu", ("r",), ("y",)))
    >>> plain, roots = unquantised(Graph(layers, ("x",), ("y",)))
    >>> [layer.inputs for layer in plain], roots
    ([('x',)], {'q': 'x', 'r': 'x'})
    """
    roots: dict[str, str] = {}
    layers: list[Layer] = []
    for layer in graph:
        inputs = tuple(n if n is None else roots.get(n, n) for n in layer.inputs)
        if layer.kind in ROUNDERS and inputs[0] is not None and inputs[0] not in graph.constants:
            roots[layer.outputs[0]] = inputs[0]
        else:
            layers.append(replace(layer, inputs=inputs))
    return replace(graph, layers=tuple(layers)), roots


def _wide(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


def steps(graph: Graph, layer: Layer) -> Transform | None:
    """How the integers of a `quantize_linear` layer become real numbers; None if its steps are computed."""
    import torch

    scale = graph.constants.get(layer.inputs[1] or "")
    named = layer.inputs[2] if len(layer.inputs) > 2 else None
    zero = graph.constants.get(named or "")
    if scale is None or scale.dim() > 1 or layer.attrs.get("block") or (named and zero is None):
        return None
    to: torch.dtype = layer.attrs.get("to") or (torch.uint8 if zero is None else zero.dtype)
    if to.is_floating_point:
        return None
    zeros = [0] * scale.numel() if zero is None else zero.reshape(-1).tolist()
    name = str(to).removeprefix("torch.")
    return Transform(
        scale=tuple(scale.reshape(-1).tolist()),
        zero=tuple(zeros),
        axis=layer.attrs.get("axis", 1),
        dtype=name,
    )


def steps_of_all(graph: Graph) -> dict[str, Transform]:
    """How the integers of each quantised value become real numbers, also where they were only moved or selected."""
    found: dict[str, Transform] = {}
    for layer in graph:
        if layer.kind == "quantize_linear":
            known = steps(graph, layer)
        else:
            known = found.get(layer.inputs[0] or "") if layer.kind in MOVES and layer.inputs else None
            known = known if known is not None and len(known.scale or ()) == 1 else None
        if known is not None:
            found[layer.outputs[0]] = known
    return found


_FEW_BELOW = 1 / 8
"""The share of a quantiser's range that may lie below 0 where it should begin there: its zero point is off."""


def clamped(graph: Graph, ours: str, twin: Graph, layer: Layer) -> str:
    """The network's tensor after a quantiser of the twin, whose range may replace a ReLU."""
    after = [graph.layers[i] for i in graph.consumers.get(ours, ())]
    quantiser = steps(twin, layer) if layer.kind == "quantize_linear" else None
    if quantiser is None or len(after) != 1:
        return ours
    low, high = quantiser.range
    step, (end,) = max(quantiser.scale or (0.0,)), after
    if end.kind == "relu":
        nearly = 0 > low > -_FEW_BELOW * (high - low) and end.kind not in _read_by(twin, layer.outputs[0])
        replaced = low == 0 or nearly
    elif end.kind == "clip":
        least, most = (_number(graph, end, name, place) for name, place in (("min", 1), ("max", 2)))
        replaced = low == 0 == least or (
            None not in (least, most) and low >= (least or 0.0) - step and high <= (most or 0.0) + step
        )
    else:
        replaced = False
    return end.outputs[0] if replaced else ours


def _read_by(graph: Graph, name: str) -> set[str]:
    """The kinds of layers that read a value, behind those that only round it."""
    found: set[str] = set()
    for i in graph.consumers.get(name, ()):
        layer = graph.layers[i]
        found |= _read_by(graph, layer.outputs[0]) if layer.kind in ROUNDERS else {layer.kind}
    return found


def _number(graph: Graph, layer: Layer, name: str, place: int) -> float | None:
    value = layer.attrs.get(name)
    if value is None and place < len(layer.inputs):
        value = graph.constants.get(layer.inputs[place] or "")
    return None if value is None else float(value)


def raw_values(graph: Graph) -> set[str]:
    """Values read only by quantisers: they are rounded before any other operator reads them."""
    return {
        name
        for name, readers in graph.consumers.items()
        if name not in graph.outputs and all(graph.layers[i].kind == "quantize_linear" for i in readers)
    }


def quantised_names(graph: Graph, names: Mapping[str, str], network: Graph) -> dict[str, str]:
    """Map quantised values to the network's tensors, by the names of what is quantised or dequantised.

    Integer operators have only quantised values; ONNX Runtime's tools name them after what they hold, and leave out an
    activation that their range replaces.
    """
    found: dict[str, str] = {}
    for layer in graph:
        if layer.kind != "quantize_linear":
            continue
        held = layer.outputs[0]
        read = (graph.layers[i].outputs[0] for i in graph.consumers.get(held, ()))
        known = next((names[n] for n in (layer.inputs[0] or "", *read) if n in names), None)
        if known is None and held.endswith(_HELD):
            ours = names.get(held.removesuffix(_HELD))
            known = None if ours is None else clamped(network, ours, graph, layer)
        if known is not None:
            found[held] = known
    return found


def carriers(graph: Graph, names: Mapping[str, str]) -> Iterator[tuple[str, str, Transform]]:
    """(network tensor, twin tensor, transform) of quantised values; real numbers before integers."""
    integers: list[tuple[str, str, Transform]] = []
    for layer in graph:
        if layer.kind != "quantize_linear" or layer.outputs[0] not in names:
            continue
        held = layer.outputs[0]
        for i in graph.consumers.get(held, ()):
            reader = graph.layers[i]
            if reader.kind == "dequantize_linear":
                yield names[held], reader.outputs[0], IDENTITY
        if (transform := steps(graph, layer)) is not None:
            integers.append((names[held], held, transform))
    yield from integers
