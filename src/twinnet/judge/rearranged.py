"""What rounding its weights does to a segment of the twin whose constants a converter moved.

`linear(relu(x) + c)` may be one layer with another bias, `W c + b`, made before the weights were rounded: the constant
is then multiplied by the weights as they were, the data by the rounded ones. The network's segment with the rounded
weights would multiply both by these. So the twin's own segment says what rounding does: it is evaluated with its
weights, and with the network's in their place, and the network's result is moved by the difference.

Nothing wrong is hidden by that: with the network's weights, the twin's segment still must give what the network's does.
A constant that is off is off in both evaluations and not in their difference, and so is a weight that is off by more
than half a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from twinnet.judge.declared import Declared
from twinnet.layers import evaluate_with_error
from twinnet.layers.graph import Graph, Layer
from twinnet.pairing.weights import agreeing, weighted_layers

__all__ = ["MovedBy", "is_rearranged", "moved_by_weights"]

_SAME = 2.0**-20
"""A share: biases in float32 that are closer are the same."""


@dataclass(frozen=True)
class MovedBy:
    """How far rounding its weights moves the result of the twin's segment, and that result's own rounding."""

    value: torch.Tensor
    floor: torch.Tensor | None


def moved_by_weights(
    declared: Declared,
    part: Sequence[Layer],
    given: Mapping[str, torch.Tensor],
    target: str,
    exact: Mapping[str, torch.Tensor],
    unit: float,
) -> MovedBy:
    """The twin's `target` with its own weights less the one with `exact` weights, from `given` values."""
    end = declared.integers_of(target)
    read = {name for layer in part for name in layer.inputs}
    layers = tuple(_real(layer, declared, end, read) for layer in part)
    rounded = Graph(layers, tuple(given), (target,), declared.constants)
    plain = replace(rounded, constants={**declared.constants, **exact})
    (value, floor), (other, _) = (
        evaluate_with_error(graph, given, {}, unit=unit, keep=[target])[target] for graph in (rounded, plain)
    )
    return MovedBy(value - other, floor)


def is_rearranged(
    network: Graph, part: Sequence[Layer], constants: Mapping[str, Any], halves: Mapping[str, Any]
) -> bool:
    """Whether layers with weights that correspond have other biases; `halves` are half steps of the twin's."""
    pairs = weighted_layers(network, part)
    return any(_other_bias(network.constants, network.layers[i], constants, b, halves) for i, b in pairs)


def _other_bias(
    ours: Mapping[str, Any], a: Layer, theirs: Mapping[str, Any], b: Layer, halves: Mapping[str, Any]
) -> bool:
    name, other = ((*layer.inputs, None, None, None)[2] or "" for layer in (a, b))
    mine, twin = (None if t is None or not bool(t.any()) else t for t in (ours.get(name), theirs.get(other)))
    if mine is None or twin is None:
        return mine is not twin
    if mine.shape != twin.shape:
        return True
    return not bool(agreeing(mine, twin, halves.get(other, twin.abs().max() * _SAME)).all())


def _real(layer: Layer, declared: Declared, end: str, read: set[str | None]) -> Layer:
    """A layer without rounding: quantisers inside cut off what is out of their range, the last one nothing.

    `read` are the values that the segment reads.
    """
    made, step = layer.outputs[0], declared.written.get(layer.outputs[0])
    if layer.kind == "quantize_linear" and step is not None and made != end:
        low, high = step.range
        return replace(layer, kind="clip", inputs=layer.inputs[:1], attrs={"min": low, "max": high})
    if layer.kind in ("quantize_linear", "dequantize_linear") and (
        made == end or layer.inputs[0] in declared.written
    ):
        return replace(layer, kind="identity", inputs=layer.inputs[:1], attrs={})
    if layer.kind == "dynamic_step" and not read.intersection(layer.outputs[1:]):
        return replace(layer, kind="identity", outputs=layer.outputs[:1], attrs={})
    return layer
