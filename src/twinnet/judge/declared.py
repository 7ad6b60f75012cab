"""How far the steps that a quantised twin declares may move a tensor.

A segment of a quantised twin is expected to compute what the network's segment computes with the weights that the twin
declares, rounded to the steps it declares. So a weight of the twin that is within half a step of the network's replaces
it exactly; each quantiser on the way may move a value by half a step; and values outside the last one's range are
clipped. A weight that is off by more than half a step, or a range too small for the network's own values, is an error,
not rounding. Weights that cannot be matched (a tool rearranged them) may each be off by half a step in the worst
direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.verdicts import LIMIT
from twinnet.layers import evaluate_with_error
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.integer import in_real_numbers
from twinnet.layers.simplify import simplified
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair, Transform
from twinnet.pairing.quantised import folded, steps
from twinnet.pairing.weights import agreeing, corresponding, same_weights

__all__ = ["CLIPPED", "COARSE", "Declared", "Expectation", "Kept", "KeptWeight", "SegmentRun"]

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
    data: Mapping[str, Transform] = field(default_factory=dict)
    """The steps of the segment's inputs, by the network's names."""
    dynamic: bool = False
    """Whether it takes the steps of its data from the data."""


class Declared:
    """A quantised twin's graph beside the network's. `inputs` maps the twin's inputs to the network's."""

    def __init__(self, graph: Graph, twin: Graph, pairs: Sequence[Pair], inputs: Mapping[str, str]) -> None:
        self._graph = graph
        self._original, self._halves = in_real_numbers(twin)
        self._inputs = inputs
        self._pairs = {p.twin_site.tensor: p for p in pairs}

    @cached_property
    def _twin(self) -> Graph:
        return simplified(folded(self._original))

    @cached_property
    def _quantisers(self) -> dict[str, Transform]:
        """The steps of each quantised value, by its name as integers."""
        found = {}
        for layer in self._twin:
            if layer.kind == "quantize_linear" and (step := steps(self._twin, layer)) is not None:
                found[layer.outputs[0]] = step
        return found

    @cached_property
    def _integers(self) -> dict[str, str]:
        """Dequantised values to the integers they were made from."""
        return {
            layer.outputs[0]: layer.inputs[0]
            for layer in self._twin
            if layer.kind == "dequantize_linear" and layer.inputs[0] in self._quantisers
        }

    def quantiser(self, tensor: str) -> Transform | None:
        """The steps of a tensor in the twin; None if it is not quantised."""
        return self._quantisers.get(self._integers.get(tensor, tensor))

    @property
    def written(self) -> Mapping[str, Transform]:
        """The steps that each tensor of integers is written in."""
        return self._quantisers

    def step_names(self, tensor: str) -> tuple[str, ...]:
        """The names of the scale and the zero point that a tensor of the twin is written with; empty if it is not."""
        index = self._twin.producer.get(self._integers.get(tensor, tensor))
        layer = None if index is None else self._twin.layers[index]
        if layer is None or layer.kind != "quantize_linear":
            return ()
        return tuple(n for n in layer.inputs[1:] if n is not None)

    # -- one pair --------------------------------------------------------------------------------------------------

    def part(self, target: str) -> tuple[list[Layer], tuple[str, ...]]:
        """The twin's own layers of a segment, simplified, and the values they start from."""
        indices, frontier = self._twin.segment([target], self._known(target))
        return [self._twin.layers[i] for i in indices], frontier

    def expect(self, run: SegmentRun) -> Expectation | None:
        """Compute what the twin should hold at a pair, given its own inputs; None where nothing is quantised."""
        pair, values, unit = run.pair, run.values, run.unit
        target = pair.twin_site.tensor
        if target not in self._twin.producer:
            return None
        known = self._known(target)
        part, frontier = self.part(target)
        weights = self.weight_steps(part)
        if not weights and not any(layer.kind in ("quantize_linear", "dynamic_step") for layer in part):
            return None
        try:
            given = {n: self._value(n, known[n], run.twin_trace, values) for n in frontier}
            network, taken = self._with_declared_weights(run.layers, values, pair.site.tensor, part, weights)
            left = {n: step for n, step in weights.items() if n not in taken}
            moved = self._moved(part, given, target, left, unit)
            value, floor = evaluate_with_error(network, values, {}, unit=unit)[pair.site.tensor]
        except (EngineError, KeyError):
            return None
        moved = to_tensor(np.array(replace(pair.transform, scale=None).to_network(moved.numpy())))
        if moved.shape != value.shape or not value.is_floating_point():
            return None
        shares = [share for name, half in weights.items() if (share := self._filled(name, half)) is not None]
        expected = Expectation(value, floor, moved, weights_used=min(shares, default=None))
        return self._clip(pair, expected, run.own)

    def _filled(self, name: str, half: torch.Tensor) -> float | None:
        """The share of its integers' range that a weight fills; None for biases, and where it is 0 or not of 8 bits."""
        weight = self._twin.constants[name].double()
        if weight.dim() < 2:
            return None
        levels = weight.abs() / (2 * half.double()).clamp(min=1e-300)
        most = float(levels.max()) if levels.numel() else 0.0
        return most / 127 if 0 < most <= 255 else None

    def kept(self, run: SegmentRun) -> Kept | None:
        """Collect what blame needs about a segment that its steps do not explain."""
        expected = self.expect(run)
        if expected is None:
            return None
        tensor, target = run.pair.site.tensor, run.pair.twin_site.tensor
        part, _ = self.part(target)
        steps_of = self.weight_steps(part)
        network, _ = self._with_declared_weights(run.layers, run.values, tensor, part, steps_of)
        allowed = expected.steps.double()
        if expected.floor is not None:
            allowed = allowed + LIMIT * expected.floor
        weights = []
        for i, place, twin in corresponding(network, part, steps_of):
            name = network.layers[i].inputs[place]
            mine, other = network.constants[name or ""].double(), self._twin.constants[twin].double()
            if mine.shape == other.shape:
                maker, turned = self._maker(twin)
                ends = self._at_an_end(twin, other)
                weights.append(
                    KeptWeight(i, place, mine, other, steps_of[twin], ends, _source(maker), turned)
                )
        read = self._reread(part, run.pair)
        held = None if any(name == tensor for name, _, _ in read) else self.quantiser(target)
        dynamic = any(layer.kind == "dynamic_step" for layer in part)
        data = self._steps_of_data(run)
        return Kept(network, allowed, tuple(weights), held, run.own, read, data, dynamic)

    def _steps_of_data(self, run: SegmentRun) -> dict[str, Transform]:
        """The steps that the twin holds a segment's inputs in, by the network's names."""
        floats = {
            layer.inputs[0]: layer.outputs[0] for layer in self._twin if layer.kind == "quantize_linear"
        }
        theirs = {pair.site.tensor: name for name, pair in self._pairs.items()}
        theirs.update({ours: name for name, ours in self._inputs.items()})
        names = {ours: theirs[ours] for ours in run.values if ours in theirs}
        steps = {ours: self.quantiser(floats.get(name, name)) for ours, name in names.items()}
        return {ours: step for ours, step in steps.items() if step is not None}

    def _maker(self, name: str) -> tuple[Layer | None, bool]:
        """The layer that makes a weight real, and whether simplifying transposed what it makes."""
        turned = name.endswith(".T") and name not in self._original.producer
        index = self._original.producer.get(name.removesuffix(".T") if turned else name)
        return None if index is None else self._original.layers[index], turned

    def _at_an_end(self, name: str, like: torch.Tensor) -> torch.Tensor:
        maker, turned = self._maker(name)
        q = self._original.constants.get(maker.inputs[0] or "") if maker is not None else None
        if q is None or q.is_floating_point():
            return torch.zeros(like.shape, dtype=torch.bool)
        info = torch.iinfo(q.dtype)
        ends = (q == info.min) | (q == info.max) | (q == -info.max)
        return ends.t() if turned else ends

    def _reread(self, part: Sequence[Layer], own: Pair) -> tuple[tuple[str, Transform, Transform], ...]:
        """Quantised inputs, or the result, of a segment that are read with other steps, by the network's name."""
        found = []
        for layer in part:
            held = layer.inputs[0] if layer.inputs else None
            if layer.kind != "dequantize_linear" or held not in self._quantisers:
                continue
            written, read = self._quantisers[held], steps(self._twin, layer)
            made = layer.outputs[0]
            pair = own if made == own.twin_site.tensor else self._pairs.get(held) or self._pairs.get(made)
            if (
                pair is not None
                and read is not None
                and (written.scale, written.zero) != (read.scale, read.zero)
            ):
                found.append((pair.site.tensor, written, read))
        return tuple(found)

    def _known(self, target: str) -> dict[str, str | None]:
        """The twin's captured values, each to the tensor that holds it; None for its inputs."""
        found: dict[str, str | None] = dict.fromkeys(self._inputs)
        own = {target, self._integers.get(target, target)}
        for name in self._pairs:
            held = self._integers.get(name)
            if name not in own and held not in own:
                found[name] = name
                if held is not None:
                    found.setdefault(held, name)
        return found

    def _value(
        self,
        name: str,
        source: str | None,
        twin_trace: Mapping[str, np.ndarray],
        values: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """A value of the twin, with integers dequantised."""
        if source is None:
            return values[self._inputs[name]]
        array = np.asarray(twin_trace[source])
        if source in self._quantisers:
            array = self._quantisers[source].to_network(array)
        return to_tensor(array)

    @property
    def constants(self) -> Mapping[str, torch.Tensor]:
        """The twin's constants, weights dequantised."""
        return self._twin.constants

    def own_part(self, layers: Sequence[int], values: Iterable[str], tensor: str) -> Graph:
        """The network's segment, simplified in the same way."""
        chosen = tuple(self._graph.layers[i] for i in layers)
        return simplified(Graph(chosen, tuple(values), (tensor,), self._graph.constants))

    def weight_steps(self, part: Sequence[Layer]) -> dict[str, torch.Tensor]:
        """Half a step of each dequantised weight that the segment reads, in the weight's shape."""
        makers = {n: layer for layer in self._original for n in layer.outputs if n}
        found: dict[str, torch.Tensor] = {}
        for layer in part:
            for name in layer.inputs:
                if name is None or name not in self._twin.constants:
                    continue
                weight, turned = self._twin.constants[name], name not in makers and name.endswith(".T")
                half = self._halves.get(name.removesuffix(".T") if turned else name)
                if half is not None:
                    found[name] = half.t() if turned else half
                    continue
                maker = makers.get(name.removesuffix(".T") if turned else name)
                if maker is None:
                    continue
                step = _step_of(maker, self._original, weight.t() if turned else weight)
                if step is not None:
                    found[name] = (step.t() if turned else step) / 2
        return found

    def _moved(
        self,
        part: Sequence[Layer],
        given: Mapping[str, torch.Tensor],
        target: str,
        weights: Mapping[str, torch.Tensor],
        unit: float,
    ) -> torch.Tensor:
        """How far half a step of every quantiser on the way, and of these weights, may move the target."""
        known: dict[str, torch.Tensor] = {**given, **{n: self._twin.constants[n] for n in weights}}
        errors: dict[str, torch.Tensor] = {n: step.to(torch.float32) for n, step in weights.items()}
        constants = {n: v for n, v in self._twin.constants.items() if n not in weights}
        layers = tuple(_unrounded(layer, self._quantisers) for layer in part)
        graph = Graph(layers, tuple(known), (target,), constants)
        slack = {layer.outputs[0]: layer.attrs.get("slack", 0.0) for layer in part}
        kinds_of = {name: layer.kind for layer in layers for name in layer.outputs}
        for layer in layers:
            step = self._quantisers.get(layer.outputs[0])
            if step is None:
                continue
            value, off = self._at(graph, layer.outputs[0], known, errors, unit)
            half = torch.as_tensor(step.along(step.scale or (0.0,), value.dim()) / 2, dtype=torch.float32)
            half = half * (1 + 2 * slack.get(layer.outputs[0], 0.0))
            if kinds_of.get(layer.inputs[0] or "") == "softmax":
                half = 2 * half  # integers go through a rounded table of exp: off by up to a whole step
            known[layer.outputs[0]] = value
            if layer.outputs[0] != self._integers.get(target, target) and layer.inputs[0] is not None:
                half = half + self._cut_off(self._at(graph, layer.inputs[0], known, errors, unit)[0], step)
            errors[layer.outputs[0]] = (torch.zeros(value.shape) if off is None else off) + half
        value, off = self._at(graph, target, known, errors, unit)
        return torch.zeros(value.shape) if off is None else off.expand(value.shape).contiguous()

    @staticmethod
    def _cut_off(value: torch.Tensor, step: Transform) -> torch.Tensor:
        """How much a quantiser inside a segment clips; zero where it clips so much that its range is too small."""
        low, high = step.range
        margin = BEYOND * (high - low)
        outside = (value < low - margin) | (value > high + margin)
        if not value.numel() or float(outside.double().mean()) > CLIPPED:
            return torch.zeros(value.shape)
        return (value - value.clamp(low, high)).abs().float()

    @staticmethod
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

    def _with_declared_weights(
        self,
        layers: Sequence[int],
        values: Mapping[str, torch.Tensor],
        tensor: str,
        part: Sequence[Layer],
        weights: Mapping[str, torch.Tensor],
    ) -> tuple[Graph, set[str]]:
        """The network's segment with the twin's weights where these are its own to within half a step."""
        network = self.own_part(layers, values, tensor)
        constants: dict[str, Any] = dict(network.constants)
        taken: set[str] = set()
        for name, twin in same_weights(network, part, self._twin.constants, weights):
            mine, other = constants[name].double(), self._twin.constants[twin].double()
            # An element that is off by more keeps the network's value: that is not rounding, and must show.
            constants[name] = torch.where(agreeing(mine, other, weights[twin]), other, mine)
            taken.add(twin)
        return replace(network, constants=constants), taken

    def _clip(self, pair: Pair, expected: Expectation, own: np.ndarray | None) -> Expectation:
        """Clip the expected value to the last quantiser's range, if that range holds the network's own values.

        Values that leave the range only because of an earlier error say nothing about the range.
        """
        step = self.quantiser(pair.twin_site.tensor)
        if step is None or len(step.scale or ()) != 1:
            return expected
        low, high = step.range
        share = 0.0
        if own is not None and own.size:
            margin = BEYOND * (high - low)
            share = float(np.mean((own < low - margin) | (own > high + margin)))
            made_by = self._graph.producer.get(pair.site.tensor)
            # Tools give these the range [0, 1] whatever the data.
            if (
                made_by is None
                or self._graph.layers[made_by].kind not in ("softmax", "sigmoid")
                or high > 1.01
            ):
                # Every range holds 0.
                extent = max(float(own.max()), 0.0) - min(float(own.min()), 0.0)
                expected = replace(expected, used=extent / (high - low))
        if share > CLIPPED:
            return replace(expected, clipped=share)
        return replace(expected, value=expected.value.clamp(low, high), clipped=share)


def _step_of(maker: Layer, graph: Graph, weight: torch.Tensor) -> torch.Tensor | None:
    """The step of a dequantised weight; a product of an integer bias and its step counts as one too."""
    places = {"dequantize_linear": 1, "mul": 1}
    place = places.get(maker.kind)
    scale = folded_constant(graph, maker.inputs[place]) if place is not None else None
    if scale is None or scale.dim() > 1:
        return None
    scale = scale.double().abs()
    if scale.numel() == 1:
        return scale.reshape(()).expand(weight.shape)
    axis = (maker.attrs.get("axis", 1) if maker.kind == "dequantize_linear" else 0) % weight.dim()
    if weight.shape[axis] != scale.numel():
        return None
    return scale.reshape([-1 if a == axis else 1 for a in range(weight.dim())]).expand(weight.shape)


def _source(maker: Layer | None) -> tuple[str, str, str, int] | None:
    if maker is None or maker.kind != "dequantize_linear":
        return None
    name, scale, zero = (n or "" for n in (*maker.inputs, None)[:3])
    return name, scale, zero, maker.attrs.get("axis", 1)


def folded_constant(graph: Graph, name: str | None) -> torch.Tensor | None:
    """A constant, or a value computed from constants alone; None for anything else."""
    if name is None or name in graph.constants:
        return graph.constants.get(name or "")
    return folded(graph).constants.get(name)


def _unrounded(layer: Layer, quantisers: Mapping[str, Transform]) -> Layer:
    """A quantiser replaced by a clip to its range, without rounding; other layers unchanged."""
    if layer.kind == "quantize_linear" and layer.outputs[0] in quantisers:
        low, high = quantisers[layer.outputs[0]].range
        return replace(layer, kind="clip", inputs=layer.inputs[:1], attrs={"min": low, "max": high})
    if layer.kind == "dequantize_linear" and layer.inputs[0] in quantisers:
        return replace(layer, kind="identity", inputs=layer.inputs[:1], attrs={})
    return layer
