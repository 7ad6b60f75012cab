"""How far the steps that a quantised twin declares may move a tensor.

A segment of a quantised twin is expected to compute what the network's segment computes with the weights that the twin
declares, rounded to the steps it declares. So a weight of the twin that is within half a step of the network's replaces
it exactly; each quantiser on the way may move a value by half a step; and values outside the last one's range are
clipped. A weight that is off by more than half a step, or a range too small for the network's own values, is an error,
not rounding. Weights that cannot be matched (a tool rearranged them) may each be off by half a step in the worst
direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.declared import Declared
from twinnet.judge.rearranged import is_rearranged, moved_by_weights
from twinnet.judge.verdicts import LIMIT
from twinnet.layers import evaluate_with_error
from twinnet.layers.graph import Graph, Layer
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair, Transform
from twinnet.pairing.weights import agreeing, corresponding, same_weights

__all__ = [
    "CLIPPED",
    "COARSE",
    "Expectation",
    "Kept",
    "KeptWeight",
    "SegmentRun",
    "declared_segment",
    "expect",
    "keep_segment",
]

CLIPPED = 0.01
"""The share of the network's own values that a declared range may clip; above it the range is too small."""

COARSE = 0.125
"""Weights that fill less than this share of their integers' range have steps that are far too large."""

BEYOND = 0.05
"""Values outside the range by less than this share of it are ignored: calibration saw other data."""


@dataclass(frozen=True)
class SegmentRun:
    """A segment of the network and its tensors in one run.

    `pair` is where it ends; `values` are its inputs, in the network's form; `own` is the network's own result.
    """

    pair: Pair
    layers: Sequence[int]
    values: Mapping[str, torch.Tensor]
    twin_trace: Mapping[str, np.ndarray]
    own: np.ndarray | None
    unit: float


@dataclass(frozen=True)
class Expectation:
    """The expected result of a twin's segment, and how far rounding (`floor`) and steps may move it.

    `used` is the share of the last quantiser's range that the network's own values fill, `weights_used` the smallest
    such share of the weights.
    """

    value: torch.Tensor
    floor: torch.Tensor | None
    steps: torch.Tensor
    clipped: float = 0.0
    used: float | None = None
    weights_used: float | None = None
    by_weights: torch.Tensor | None = None
    """What rounding its weights adds in a segment whose constants were moved; of others it is not known."""


@dataclass(frozen=True)
class KeptWeight:
    """A weight of the network's segment beside the twin's.

    `place` is its position among the inputs of `layer`, `half` half a step of each element; `ends` marks elements
    where the twin's integer is the smallest or largest of its type. `source` names its integers, their scale and zero
    point in the twin's graph, and the axis of the steps; `turned` means that it is held transposed there.
    """

    layer: int
    place: int
    ours: torch.Tensor
    theirs: torch.Tensor
    half: torch.Tensor
    ends: torch.Tensor
    source: tuple[str, str, str, int] | None = None
    turned: bool = False


@dataclass(frozen=True)
class Kept:
    """A segment as a quantised twin should compute it, for blame to examine when it does not.

    `graph` is the network's segment with the twin's weights where they match; `allowed` is how far steps and
    rounding may move its result; `own` is the network's own result.
    """

    graph: Graph
    allowed: torch.Tensor
    weights: tuple[KeptWeight, ...]
    step: Transform | None
    own: np.ndarray | None
    read: tuple[tuple[str, Transform, Transform], ...] = ()
    """Inputs that are read with other steps than they were written with: name, written, read."""
    dynamic: bool = False
    """Whether it takes the steps of its data from the data."""
    by_weights: torch.Tensor | None = None
    """What rounding its weights adds; `graph` then has the network's own."""

    def unrounded(self, got: torch.Tensor) -> torch.Tensor:
        """A result of the twin without what rounding its weights added; as it is at the ends of its range."""
        if self.by_weights is None:
            return got
        inside = torch.ones(got.shape, dtype=torch.bool)
        if self.step is not None:
            (low, high), step = self.step.range, max(self.step.scale or (0.0,))
            inside = (got > low + step / 2) & (got < high - step / 2)
        return torch.where(inside, got - self.by_weights, got).to(got.dtype)


def expect(declared: Declared, run: SegmentRun) -> Expectation | None:
    """Compute what the twin should hold at a pair, given its own inputs; None where nothing is quantised."""
    pair, values, unit = run.pair, run.values, run.unit
    target = pair.twin_site.tensor
    if target not in declared.twin.producer:
        return None
    known = declared.known(target)
    part, frontier = declared.part(target)
    weights = declared.weight_steps(part)
    if not weights and not any(layer.kind in ("quantize_linear", "dynamic_step") for layer in part):
        return None
    try:
        given = {n: declared.value(n, known[n], run.twin_trace, values) for n in frontier}
        own, taken = _matched(declared, run, part, weights)
        left = {n: step for n, step in weights.items() if n not in taken.values()}
        moved = _as_ours(pair, _moved(declared, part, given, target, left, unit))
        rearranged = bool(taken) and is_rearranged(own, part, declared.constants, weights)
        network = own if rearranged else _with_weights(own, declared, taken, weights)
        value, floor = evaluate_with_error(network, values, {}, unit=unit)[pair.site.tensor]
        by_weights = None
        if rearranged:
            exact = {
                twin: torch.where(agreeing(mine, other, weights[twin]), mine, other)
                for name, twin in taken.items()
                for mine, other in [(own.constants[name].double(), declared.constants[twin].double())]
            }
            by = moved_by_weights(declared, part, given, target, exact, unit)
            by_weights = _as_ours(pair, by.value)
            value = value + by_weights
            if by.floor is not None:
                floor = _as_ours(pair, by.floor) + (0.0 if floor is None else floor)
    except (EngineError, KeyError):
        return None
    if moved.shape != value.shape or not value.is_floating_point():
        return None
    shares = [share for name, half in weights.items() if (share := declared.filled(name, half)) is not None]
    expected = Expectation(value, floor, moved, weights_used=min(shares, default=None), by_weights=by_weights)
    return _clip(declared, pair, expected, run.own)


def declared_segment(declared: Declared, run: SegmentRun) -> Graph | None:
    """The network's segment with the weights that the twin declares; None where nothing is quantised."""
    target = run.pair.twin_site.tensor
    if target not in declared.twin.producer:
        return None
    part, _ = declared.part(target)
    weights = declared.weight_steps(part)
    if not weights and not any(layer.kind in ("quantize_linear", "dynamic_step") for layer in part):
        return None
    own, taken = _matched(declared, run, part, weights)
    return _with_weights(own, declared, taken, weights)


def keep_segment(declared: Declared, run: SegmentRun) -> Kept | None:
    """Collect what blame needs about a segment that its steps do not explain."""
    expected = expect(declared, run)
    if expected is None:
        return None
    tensor, target = run.pair.site.tensor, run.pair.twin_site.tensor
    part, _ = declared.part(target)
    steps_of = declared.weight_steps(part)
    own, taken = _matched(declared, run, part, steps_of)
    network = own if expected.by_weights is not None else _with_weights(own, declared, taken, steps_of)
    allowed = expected.steps.double()
    if expected.floor is not None:
        allowed = allowed + LIMIT * expected.floor
    weights = []
    for i, place, twin in corresponding(network, part, steps_of):
        name = network.layers[i].inputs[place]
        mine, other = network.constants[name or ""].double(), declared.constants[twin].double()
        if mine.shape == other.shape:
            maker, turned = declared.maker(twin)
            ends = declared.at_an_end(twin, other)
            weights.append(KeptWeight(i, place, mine, other, steps_of[twin], ends, _source(maker), turned))
    read = declared.reread(part, run.pair)
    held = None if any(name == tensor for name, _, _ in read) else declared.quantiser(target)
    dynamic = any(layer.kind == "dynamic_step" for layer in part)
    return Kept(network, allowed, tuple(weights), held, run.own, read, dynamic, expected.by_weights)


def _matched(
    declared: Declared, run: SegmentRun, part: Sequence[Layer], weights: Mapping[str, torch.Tensor]
) -> tuple[Graph, dict[str, str]]:
    """The network's segment, and its weights that are the twin's to within half a step, to the twin's names."""
    own = declared.own_part(run.layers, run.values, run.pair.site.tensor)
    return own, dict(same_weights(own, part, declared.constants, weights))


def _with_weights(
    own: Graph, declared: Declared, taken: Mapping[str, str], weights: Mapping[str, torch.Tensor]
) -> Graph:
    """The network's segment with the twin's weights in place of these."""
    constants: dict[str, Any] = dict(own.constants)
    for name, twin in taken.items():
        mine, other = constants[name].double(), declared.constants[twin].double()
        # An element that is off by more keeps the network's value: that is not rounding, and must show.
        constants[name] = torch.where(agreeing(mine, other, weights[twin]), other, mine)
    return replace(own, constants=constants)


def _as_ours(pair: Pair, value: torch.Tensor) -> torch.Tensor:
    """Real numbers of the twin in the network's form."""
    return to_tensor(np.array(replace(pair.transform, scale=None).to_network(value.numpy())))


def _moved(
    declared: Declared,
    part: Sequence[Layer],
    given: Mapping[str, torch.Tensor],
    target: str,
    weights: Mapping[str, torch.Tensor],
    unit: float,
) -> torch.Tensor:
    """How far half a step of every quantiser on the way, and of these weights, may move the target."""
    known: dict[str, torch.Tensor] = {**given, **{n: declared.constants[n] for n in weights}}
    errors: dict[str, torch.Tensor] = {n: step.to(torch.float32) for n, step in weights.items()}
    constants = {n: v for n, v in declared.constants.items() if n not in weights}
    layers = tuple(_unrounded(layer, declared.written) for layer in part)
    graph = Graph(layers, tuple(known), (target,), constants)
    fixed = {layer.outputs[0]: layer.attrs for layer in part}
    kinds_of = {name: layer.kind for layer in layers for name in layer.outputs}
    for layer, before in zip(layers, part, strict=True):
        step = declared.written.get(layer.outputs[0])
        if step is None or before.kind != "quantize_linear":
            continue
        value, off = _at(graph, layer.outputs[0], known, errors, unit)
        half = torch.as_tensor(step.along(step.scale or (0.0,), value.dim()) / 2, dtype=torch.float32)
        added = fixed.get(layer.outputs[0], {})
        half = half * (1 + 2 * added.get("slack", 0.0)) + value.abs().float() * added.get("share", 0.0)
        if kinds_of.get(layer.inputs[0] or "") == "softmax":
            half = 2 * half  # integers go through a rounded table of exp: off by up to a whole step
        known[layer.outputs[0]] = value
        if layer.outputs[0] != declared.integers_of(target) and layer.inputs[0] is not None:
            half = half + _cut_off(_at(graph, layer.inputs[0], known, errors, unit)[0], step)
        errors[layer.outputs[0]] = (torch.zeros(value.shape) if off is None else off) + half
    value, off = _at(graph, target, known, errors, unit)
    return torch.zeros(value.shape) if off is None else off.expand(value.shape).contiguous()


def _cut_off(value: torch.Tensor, step: Transform) -> torch.Tensor:
    """How much a quantiser inside a segment clips; zero where it clips so much that its range is too small."""
    low, high = step.range
    margin = BEYOND * (high - low)
    outside = (value < low - margin) | (value > high + margin)
    if not value.numel() or float(outside.double().mean()) > CLIPPED:
        return torch.zeros(value.shape)
    return (value - value.clamp(low, high)).abs().float()


def _at(
    graph: Graph,
    name: str,
    known: Mapping[str, torch.Tensor],
    errors: Mapping[str, torch.Tensor],
    unit: float,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if name in known:
        return known[name], errors.get(name)
    indices, frontier = graph.segment([name], known)
    values = {n: known[n] for n in frontier}
    off = {n: errors[n] for n in frontier if n in errors}
    return evaluate_with_error(graph, values, off, unit=unit, layers=indices, keep=[name])[name]


def _clip(declared: Declared, pair: Pair, expected: Expectation, own: np.ndarray | None) -> Expectation:
    """Clip the expected value to the last quantiser's range, if that range holds the network's own values.

    Values that leave the range only because of an earlier error say nothing about the range.
    """
    step = declared.quantiser(pair.twin_site.tensor)
    if step is None or len(step.scale or ()) != 1:
        return expected
    low, high = step.range
    share = 0.0
    if own is not None and own.size:
        margin = BEYOND * (high - low)
        share = float(np.mean((own < low - margin) | (own > high + margin)))
        made_by = declared.network.producer.get(pair.site.tensor)
        # Tools give these the range [0, 1] whatever the data.
        if (
            made_by is None
            or declared.network.layers[made_by].kind not in ("softmax", "sigmoid")
            or high > 1.01
        ):
            # Every range holds 0.
            extent = max(float(own.max()), 0.0) - min(float(own.min()), 0.0)
            expected = replace(expected, used=extent / (high - low))
    if share > CLIPPED:
        return replace(expected, clipped=share)
    return replace(expected, value=expected.value.clamp(low, high), clipped=share)


def _source(maker: Layer | None) -> tuple[str, str, str, int] | None:
    if maker is None or maker.kind != "dequantize_linear":
        return None
    name, scale, zero = (n or "" for n in (*maker.inputs, None)[:3])
    return name, scale, zero, maker.attrs.get("axis", 1)


def _unrounded(layer: Layer, quantisers: Mapping[str, Transform]) -> Layer:
    """A quantiser replaced by a clip to its range, without rounding; other layers unchanged."""
    if layer.kind == "quantize_linear" and layer.outputs[0] in quantisers:
        low, high = quantisers[layer.outputs[0]].range
        return replace(layer, kind="clip", inputs=layer.inputs[:1], attrs={"min": low, "max": high})
    if layer.kind == "dequantize_linear" and layer.inputs[0] in quantisers:
        return replace(layer, kind="identity", inputs=layer.inputs[:1], attrs={})
    return layer
