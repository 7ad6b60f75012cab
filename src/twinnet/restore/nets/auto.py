"""AutoLUT: learned samplers and adaptive residuals, on MuLUT and on SPF-LUT. Only the number of branches
counts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from twinnet.errors import UsageError
from twinnet.lut.bodies import DenseBody
from twinnet.lut.grid import Grid, default_value_bits
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import AdaRL, AutoSample, Branch, LookupStage
from twinnet.lut.plan import INPUT, Interpolation, Padding, Plane
from twinnet.lut.requants import centred, direct
from twinnet.lut.unit import Unit
from twinnet.restore.nets import spf

__all__ = ["build_mulut", "build_spf"]


def _count(branches: int | str) -> int:
    count = len(branches) if isinstance(branches, str) else branches
    if count < 1:
        raise UsageError("an AutoLUT network needs at least one branch")
    return count


def build_mulut(
    branches: int | str = 3,
    stages: int = 2,
    scale: int = 4,
    window: int = 3,
    width: int = 64,
    grid: Grid | None = None,
    padding: Padding = "edge",
    interpolation: Interpolation = "simplex",
    activation: Callable[[Tensor], Tensor] = torch.nn.functional.gelu,
    task: str = "sr",
) -> LutNet:
    """AutoLUT on MuLUT: from the second stage on, taps mix in the input of the stage before.

    >>> build_mulut("ss", window=5, width=8).scale
    4
    """
    count = _count(branches)
    if stages < 1 or scale < 1:
        raise UsageError("a network needs at least one stage, and a scale of at least 1")
    bits = default_value_bits(grid or Grid(), 4, interpolation)
    built: dict[str, LookupStage] = {}
    sources = [INPUT]
    for number in range(1, stages + 1):
        last = number == stages
        outputs = scale**2 if last else 1
        group = [
            Branch(
                AutoSample(window, value_bits=bits),
                Unit(DenseBody(4, outputs, width, activation), 4, outputs, grid, interpolation),
                [Plane(sources[-1])],
                [Plane(sources[-2])] if number > 1 else [],
                padding,
                residual=AdaRL() if number > 1 else None,
            )
            for _ in range(count)
        ]
        requant = direct(count) if last else centred(4 * count)
        sources.append(f"stage{number}")
        built[sources[-1]] = LookupStage({"in_c0": group}, requant, upscale=scale if last else 1)
    return LutNet(built, name=f"auto-mulut-{stages}", task=task)


def build_spf(
    branches: int | str = 1,
    scale: int = 4,
    window: int = 5,
    width: int = 64,
    grid: Grid | None = None,
    padding: Padding = "edge",
    interpolation: Interpolation = "simplex",
    activation: Callable[[Tensor], Tensor] = torch.relu,
    task: str = "sr",
) -> LutNet:
    """AutoLUT on SPF-LUT: blocks 2 to 4 and the up block mix in the input of an earlier block.

    >>> net = build_spf("s", scale=2, window=3, width=8)
    >>> [s.name for s in net.sites() if s.kind == "previous"][0]
    'convblock2.in_c0.input.prev_x'
    """
    count = _count(branches)
    bits = default_value_bits(grid or Grid(), 4, interpolation)
    samplers: list[spf.Sampler] = [lambda: AutoSample(window, value_bits=bits)] * count
    return spf.assemble(
        samplers,
        scale,
        width,
        grid,
        padding,
        interpolation,
        activation,
        residual=True,
        name="auto-spf",
        task=task,
    )
