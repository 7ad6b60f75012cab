"""What all Units of a network share: the keywords that every builder of networks takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from twinnet.lut.bodies import DenseBody
from twinnet.lut.grid import Grid, default_value_bits
from twinnet.lut.nodes import AdaRL, AutoSample, Branch, Taps
from twinnet.lut.plan import Interpolation, Padding, Plane
from twinnet.lut.unit import Unit

__all__ = ["Style", "UnitStyle"]


class Style(TypedDict, total=False):
    """The fields of `UnitStyle` as keywords of a builder."""

    width: int
    grid: Grid | None
    padding: Padding
    interpolation: Interpolation
    activation: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class UnitStyle:
    """How the Units of a network are made, and how they read images."""

    width: int = 64
    """Width of the hidden layers."""
    grid: Grid | None = None
    """Grid of the tables; None: 17 nodes per axis."""
    padding: Padding = "edge"
    interpolation: Interpolation = "simplex"
    activation: Callable[[Tensor], Tensor] = torch.relu

    def unit(self, axes: int, outputs: int, grid: Grid | None = None) -> Unit:
        """A Unit with a `DenseBody`; `grid` overrides the grid of the style."""
        body = DenseBody(axes, outputs, self.width, self.activation)
        return Unit(body, axes, outputs, grid or self.grid, self.interpolation)

    def sampler(self, window: int) -> AutoSample:
        """A learned sampler for tables of four axes."""
        bits = default_value_bits(self.grid or Grid(), 4, self.interpolation)
        return AutoSample(window, value_bits=bits)

    def branch(
        self, sample: Taps | AutoSample, outputs: int, source: Plane, previous: Plane | None = None
    ) -> Branch:
        """A Unit on `source`; where `previous` is given, mixed with the same sample of that plane."""
        residual = None if previous is None else AdaRL([previous], sample.axes)
        return Branch(sample, self.unit(sample.axes, outputs), [source], self.padding, residual=residual)
