"""What a quantised twin declares: the steps of its tensors and weights, beside the network's own graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch

from twinnet.layers.graph import Graph, Layer
from twinnet.layers.integer import in_real_numbers
from twinnet.layers.simplify import simplified
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair, Transform
from twinnet.pairing.quantised import folded, steps, steps_of_all

__all__ = ["Declared"]


class Declared:
    """A quantised twin's graph beside the network's. `inputs` maps the twin's inputs to the network's."""

    def __init__(self, graph: Graph, twin: Graph, pairs: Sequence[Pair], inputs: Mapping[str, str]) -> None:
        self.network = graph
        self._original, self._halves = in_real_numbers(twin)
        self._inputs = inputs
        self._pairs = {p.twin_site.tensor: p for p in pairs}

    @cached_property
    def twin(self) -> Graph:
        """The twin's graph, simplified: weights in real numbers."""
        return simplified(folded(self._original))

    @cached_property
    def written(self) -> dict[str, Transform]:
        """The steps that each tensor of integers is written in."""
        return steps_of_all(self.twin)

    @cached_property
    def _integers(self) -> dict[str, str]:
        """Dequantised values to the integers they were made from."""
        return {
            layer.outputs[0]: layer.inputs[0]
            for layer in self.twin
            if layer.kind == "dequantize_linear" and layer.inputs[0] in self.written
        }

    def integers_of(self, tensor: str) -> str:
        """The tensor of integers that holds a value; the value itself if there is none."""
        return self._integers.get(tensor, tensor)

    def quantiser(self, tensor: str) -> Transform | None:
        """The steps of a tensor in the twin; None if it is not quantised."""
        return self.written.get(self.integers_of(tensor))

    def step_names(self, tensor: str) -> tuple[str, ...]:
        """The names of the scale and the zero point that a tensor of the twin is written with; empty if it is not."""
        index = self.twin.producer.get(self.integers_of(tensor))
        layer = None if index is None else self.twin.layers[index]
        if layer is None or layer.kind != "quantize_linear":
            return ()
        return tuple(n for n in layer.inputs[1:] if n is not None)

    def part(self, target: str) -> tuple[list[Layer], tuple[str, ...]]:
        """The twin's own layers of a segment, simplified, and the values they start from."""
        indices, frontier = self.twin.segment([target], self.known(target))
        return [self.twin.layers[i] for i in indices], frontier

    def filled(self, name: str, half: torch.Tensor) -> float | None:
        """The share of its integers' range that a weight fills; None for biases, and where it is 0 or not of 8 bits."""
        weight = self.twin.constants[name].double()
        if weight.dim() < 2:
            return None
        levels = weight.abs() / (2 * half.double()).clamp(min=1e-300)
        most = float(levels.max()) if levels.numel() else 0.0
        return most / 127 if 0 < most <= 255 else None

    def steps_of_data(self, names: Iterable[str]) -> dict[str, Transform]:
        """The steps that the twin holds a segment's inputs in, by the network's names."""
        floats = {layer.inputs[0]: layer.outputs[0] for layer in self.twin if layer.kind == "quantize_linear"}
        theirs = {pair.site.tensor: name for name, pair in self._pairs.items()}
        theirs.update({ours: name for name, ours in self._inputs.items()})
        held = {ours: theirs[ours] for ours in names if ours in theirs}
        steps = {ours: self.quantiser(floats.get(name, name)) for ours, name in held.items()}
        return {ours: step for ours, step in steps.items() if step is not None}

    def rounded_data(self, target: str) -> dict[str, float]:
        """Half a step of each captured value that the segment of `target` rounds first, by the network's names."""
        found: dict[str, float] = {}
        for layer in self.part(target)[0] if target in self.twin.producer else ():
            step = self.written.get(layer.outputs[0]) if layer.kind == "quantize_linear" else None
            source = layer.inputs[0] or ""
            pair = self._pairs.get(source)
            ours = self._inputs.get(source) if pair is None else pair.site.tensor
            if step is not None and ours is not None:
                found[ours] = max(step.scale or (0.0,)) / 2
        return found

    def maker(self, name: str) -> tuple[Layer | None, bool]:
        """The layer that makes a weight real, and whether simplifying transposed what it makes."""
        turned = name.endswith(".T") and name not in self._original.producer
        index = self._original.producer.get(name.removesuffix(".T") if turned else name)
        return None if index is None else self._original.layers[index], turned

    def at_an_end(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """Where the integers of a weight are the smallest or largest of their type."""
        maker, turned = self.maker(name)
        q = self._original.constants.get(maker.inputs[0] or "") if maker is not None else None
        if q is None or q.is_floating_point():
            return torch.zeros(like.shape, dtype=torch.bool)
        info = torch.iinfo(q.dtype)
        ends = (q == info.min) | (q == info.max) | (q == -info.max)
        return ends.t() if turned else ends

    def reread(self, part: Sequence[Layer], own: Pair) -> tuple[tuple[str, Transform, Transform], ...]:
        """Quantised inputs, or the result, of a segment that are read with other steps, by the network's name."""
        found = []
        for held, made, written, read in self._otherwise(part):
            pair = own if made == own.twin_site.tensor else self._pairs.get(held) or self._pairs.get(made)
            source = self.twin.layers[self.twin.producer[held]].inputs[0] or ""
            name = self._inputs.get(source) if pair is None else pair.site.tensor
            if name is not None:
                found.append((name, written, read))
        return tuple(found)

    @property
    def all_reread(self) -> tuple[tuple[str, Transform, Transform], ...]:
        """All values of the twin that are read with other steps than they are written with: name, written, read."""
        return tuple((held, written, read) for held, _, written, read in self._otherwise(self.twin))

    def _otherwise(self, layers: Iterable[Layer]) -> Iterator[tuple[str, str, Transform, Transform]]:
        for layer in layers:
            held = layer.inputs[0] if layer.inputs else None
            if layer.kind != "dequantize_linear" or held is None or held not in self.written:
                continue
            written, read = self.written[held], steps(self.twin, layer)
            if read is not None and (written.scale, written.zero) != (read.scale, read.zero):
                yield held, layer.outputs[0], written, read

    def known(self, target: str) -> dict[str, str | None]:
        """The twin's captured values, each to the tensor that holds it; None for its inputs."""
        found: dict[str, str | None] = dict.fromkeys(self._inputs)
        own = {target, self.integers_of(target)}
        for name in self._pairs:
            held = self._integers.get(name)
            if name not in own and held not in own:
                found[name] = name
                if held is not None:
                    found.setdefault(held, name)
        return found

    def value(
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
        if source in self.written:
            array = self.written[source].to_network(array)
        return to_tensor(array)

    @property
    def constants(self) -> Mapping[str, torch.Tensor]:
        """The twin's constants, weights dequantised."""
        return self.twin.constants

    def own_part(self, layers: Sequence[int], values: Iterable[str], tensor: str) -> Graph:
        """The network's segment, simplified in the same way."""
        chosen = tuple(self.network.layers[i] for i in layers)
        return simplified(Graph(chosen, tuple(values), (tensor,), self.network.constants))

    def weight_steps(self, part: Sequence[Layer]) -> dict[str, torch.Tensor]:
        """Half a step of each dequantised weight that the segment reads, in the weight's shape."""
        makers = {n: layer for layer in self._original for n in layer.outputs if n}
        found: dict[str, torch.Tensor] = {}
        for layer in part:
            for name in layer.inputs:
                if name is None or name not in self.twin.constants:
                    continue
                weight, turned = self.twin.constants[name], name not in makers and name.endswith(".T")
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


def folded_constant(graph: Graph, name: str | None) -> torch.Tensor | None:
    """A constant, or a value computed from constants alone; None for anything else."""
    if name is None or name in graph.constants:
        return graph.constants.get(name or "")
    return folded(graph).constants.get(name)
