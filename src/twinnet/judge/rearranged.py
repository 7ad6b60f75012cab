"""What rounding its weights does to a segment of the twin whose constants a converter moved.

`linear(relu(x) + c)` may be one layer with another bias, `W c + b`, made before the weights were rounded: the constant
is then multiplied by the weights as they were, the data by the rounded ones. The network's segment with the rounded
weights would multiply both by these. So the twin's own segment says what rounding does: it is evaluated with its
weights, and with the network's in their place, and the network's result is moved by the difference.

Nothing wrong is hidden by that: with the network's weights, the twin's segment still must give what the network's does.
A constant that is off is off in both evaluations and not in their difference, and so is a weight that is off by more
than half a step. Neither is cut off at the ends of a range, so that one that is too small shows too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from twinnet.judge.declared import Declared
from twinnet.layers import evaluate_with_error
from twinnet.layers.graph import Graph, Layer
from twinnet.pairing.weights import WEIGHTED, agreeing, weighted_layers

__all__ = ["MovedBy", "is_rearranged", "moved_by_weights"]

_SAME = 2.0**-20
"""A share: biases in float32 that are closer are the same."""
_ROUNDED = 4.0
"""Half steps that biases may be apart and still be the same: they are divided by two scales, in float32."""


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
    read = {name for layer in part for name in layer.inputs}
    last = max((i for i, layer in enumerate(part) if layer.kind in WEIGHTED), default=0)
    layers = tuple(_real(layer, declared, read, inner=i < last) for i, layer in enumerate(part))
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
    near = twin.abs().max() * _SAME + (_ROUNDED * halves[other] if other in halves else 0.0)
    return not bool(agreeing(mine, twin, near).all())


def _real(layer: Layer, declared: Declared, read: set[str | None], *, inner: bool) -> Layer:
    """A layer without rounding; `read` are the values that the segment reads.

    A quantiser on the way to more weights, with a range that begins at 0, may stand for a ReLU.
    """
    same = replace(layer, kind="identity", inputs=layer.inputs[:1], outputs=layer.outputs[:1], attrs={})
    if layer.kind == "quantize_linear" and layer.outputs[0] in declared.written:
        return (
            replace(same, kind="relu") if inner and declared.written[layer.outputs[0]].range[0] == 0 else same
        )
    if layer.kind == "dequantize_linear" and layer.inputs[0] in declared.written:
        return same
    if layer.kind == "dynamic_step" and not read.intersection(layer.outputs[1:]):
        return same
    return layer
