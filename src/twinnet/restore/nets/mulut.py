"""MuLUT: several stages of several tables; and cascades of stages at different scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from twinnet.errors import UsageError
from twinnet.lut.bodies import DenseBody
from twinnet.lut.grid import Grid
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import Branch, LookupStage, Taps
from twinnet.lut.patterns import patterns as read_patterns
from twinnet.lut.plan import INPUT, Interpolation, Padding, Plane
from twinnet.lut.requants import centred, direct
from twinnet.lut.unit import Unit

__all__ = ["StageSpec", "build", "cascade"]

Patterns = str | Iterable[str | Iterable[Iterable[int]]]


DEFAULT_GRID = Grid()
"""17 nodes per axis."""


@dataclass(frozen=True)
class StageSpec:
    """One stage of a cascade.

    `patterns` by name or as offsets; `upscale` output pixels per site along each axis; `cell` source
    pixels per site (2 on an x2 image means one site per original pixel). `centred` stages hold signed
    values around grey 127. `grids` is one grid for all tables of the stage, or one for each.
    """

    patterns: Patterns
    upscale: int = 1
    cell: int = 1
    centred: bool = False
    grids: Grid | Sequence[Grid] = DEFAULT_GRID


def cascade(
    stages: Sequence[StageSpec],
    width: int = 64,
    padding: Padding = "edge",
    interpolation: Interpolation = "simplex",
    activation: Callable[[Tensor], Tensor] = torch.relu,
    name: str = "cascade",
    task: str = "sr",
) -> LutNet:
    """Stages one after the other, each reading the image the one before it wrote.

    >>> net = cascade([StageSpec("P1+P2+P3", upscale=2), StageSpec("Q1+Q2+Q3", upscale=4, cell=2)], width=8)
    >>> net.scale, net(torch.rand(1, 1, 4, 5)).shape
    (4, torch.Size([1, 1, 16, 20]))
    """
    built: dict[str, LookupStage] = {}
    source = INPUT
    for number, spec in enumerate(stages, start=1):
        taps = read_patterns(spec.patterns)
        grids = [spec.grids] * len(taps) if isinstance(spec.grids, Grid) else list(spec.grids)
        if len(grids) != len(taps):
            raise UsageError(f"stage {number} has {len(taps)} patterns but {len(grids)} grids")
        outputs = spec.upscale**2
        branches = [
            Branch(
                Taps(offsets),
                Unit(
                    DenseBody(len(offsets), outputs, width, activation),
                    len(offsets),
                    outputs,
                    grid,
                    interpolation,
                ),
                [Plane(source)],
                padding=padding,
            )
            for offsets, grid in zip(taps, grids)
        ]
        requant = centred(4 * len(taps)) if spec.centred else direct(len(taps))
        source = f"stage{number}"
        built[source] = LookupStage({"in_c0": branches}, requant, upscale=spec.upscale, cell=spec.cell)
    return LutNet(built, name=name, task=task)


def build(
    patterns: Patterns = "sdy",
    stages: int = 2,
    scale: int = 4,
    width: int = 64,
    grid: Grid | None = None,
    padding: Padding = "edge",
    interpolation: Interpolation = "simplex",
    activation: Callable[[Tensor], Tensor] = torch.relu,
    task: str = "sr",
) -> LutNet:
    """A MuLUT network: all stages but the last at the input's size, the last one at `scale`.

    >>> net = build()
    >>> sum(p.numel() for p in net.parameters())
    265587
    """
    if stages < 1 or scale < 1:
        raise UsageError("a network needs at least one stage, and a scale of at least 1")
    taps = read_patterns(patterns)
    chosen = grid if grid is not None else Grid()
    specs = [StageSpec(taps, centred=True, grids=chosen) for _ in range(stages - 1)]
    specs.append(StageSpec(taps, upscale=scale, grids=chosen))
    return cascade(specs, width, padding, interpolation, activation, name=f"mulut-{stages}", task=task)
