"""MuLUT: several stages of several tables; and cascades of stages at different scales."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Unpack

from twinnet.errors import UsageError
from twinnet.lut.grid import Grid
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import Branch, LookupStage, Taps
from twinnet.lut.patterns import patterns as read_patterns
from twinnet.lut.plan import INPUT, Plane
from twinnet.lut.requants import centred, direct
from twinnet.restore.nets.style import Style, UnitStyle

__all__ = ["StageSpec", "build", "cascade"]

Patterns = str | Iterable[str | Iterable[Iterable[int]]]


@dataclass(frozen=True)
class StageSpec:
    """One stage of a cascade.

    `patterns` by name or as offsets; `upscale` output pixels per site along each axis; `cell` source
    pixels per site (2 on an x2 image means one site per original pixel). `centred` stages hold signed
    values around grey 127. `grids` is one grid for all tables of the stage, or one for each; None takes
    the grid of the network.
    """

    patterns: Patterns
    upscale: int = 1
    cell: int = 1
    centred: bool = False
    grids: Grid | Sequence[Grid] | None = None


def cascade(stages: Sequence[StageSpec], name: str = "cascade", **style: Unpack[Style]) -> LutNet:
    """Stages one after the other, each reading the image the one before it wrote.

    >>> import torch
    >>> net = cascade([StageSpec("P1+P2+P3", upscale=2), StageSpec("Q1+Q2+Q3", upscale=4, cell=2)], width=8)
    >>> net.scale, net(torch.rand(1, 1, 4, 5)).shape
    (4, torch.Size([1, 1, 16, 20]))
    """
    units = UnitStyle(**style)
    built: dict[str, LookupStage] = {}
    source = INPUT
    for number, spec in enumerate(stages, start=1):
        taps = read_patterns(spec.patterns)
        grids = list(spec.grids) if isinstance(spec.grids, Sequence) else [spec.grids] * len(taps)
        if len(grids) != len(taps):
            raise UsageError(f"stage {number} has {len(taps)} patterns but {len(grids)} grids")
        branches = [
            Branch(
                Taps(offsets), units.unit(len(offsets), spec.upscale**2, grid), [Plane(source)], units.padding
            )
            for offsets, grid in zip(taps, grids)
        ]
        requant = centred(4 * len(taps)) if spec.centred else direct(len(taps))
        source = f"stage{number}"
        built[source] = LookupStage({"in_c0": branches}, requant, upscale=spec.upscale, cell=spec.cell)
    return LutNet(built, name=name)


def build(patterns: Patterns = "sdy", stages: int = 2, scale: int = 4, **style: Unpack[Style]) -> LutNet:
    """A MuLUT network: all stages but the last at the input's size, the last one at `scale`.

    >>> net = build()
    >>> sum(p.numel() for p in net.parameters())
    265587
    """
    if stages < 1 or scale < 1:
        raise UsageError("a network needs at least one stage, and a scale of at least 1")
    taps = read_patterns(patterns)
    specs = [*[StageSpec(taps, centred=True)] * (stages - 1), StageSpec(taps, upscale=scale)]
    return cascade(specs, f"mulut-{stages}", **style)
