"""Which flips of integers and flags are excused: where the network itself was within rounding of flipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from twinnet.layers import evaluate_with_error, kinds
from twinnet.layers.graph import Graph

__all__ = ["Flipped"]


@dataclass(frozen=True)
class Flipped:
    """A segment with a discrete result: its layers, its inputs in the twin, and how far those may be off."""

    graph: Graph
    layers: Sequence[int]
    values: Mapping[str, torch.Tensor]
    carried: Mapping[str, torch.Tensor]
    unit: float

    def excused(self, tensor: str, expected: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """Mark the elements that are equal, or that rounding of the compared values may have flipped."""
        layer = self.graph.layers[self.graph.producer[tensor]]
        operands = [n for n in layer.inputs if n is not None and n not in self.graph.constants]
        wanted = list(dict.fromkeys([*operands, *(n for n in layer.outputs if n)]))
        found = evaluate_with_error(
            self.graph, self.values, self.carried, unit=self.unit, layers=self.layers, keep=wanted
        )

        def operand(name: str | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
            if name is None:
                return None, None
            if name in self.graph.constants:
                constant = self.graph.constants[name]
                return (constant.double() if constant.is_floating_point() else constant), None
            return found[name]

        inputs, errors = zip(*(operand(n) for n in layer.inputs), strict=True) if layer.inputs else ((), ())
        outputs = [found[n][0] if n in found else None for n in layer.outputs]
        kind = kinds.get(layer.kind)
        if kind.discrete:
            flips = kind.flips(layer.attrs, inputs, errors, outputs, self.unit)[layer.outputs.index(tensor)]
            if flips is not None:
                return flips.excuses(expected, got)
        same = expected == got
        step = found[tensor][1]
        if step is None:
            return same
        return same | ((got.to(torch.float64) - expected.to(torch.float64)).abs() <= step)
