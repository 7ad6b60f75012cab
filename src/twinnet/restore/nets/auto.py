"""AutoLUT: learned samplers and adaptive residuals, on MuLUT and on SPF-LUT. Only the number of branches
counts."""

from __future__ import annotations

from typing import Unpack

import torch

from twinnet.errors import UsageError
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import LookupStage
from twinnet.lut.plan import INPUT, Plane
from twinnet.lut.requants import centred, direct
from twinnet.restore.nets import spf
from twinnet.restore.nets.style import Style, UnitStyle

__all__ = ["build_mulut", "build_spf"]


def _count(branches: int | str) -> int:
    count = len(branches) if isinstance(branches, str) else branches
    if count < 1:
        raise UsageError("an AutoLUT network needs at least one branch")
    return count


def build_mulut(
    branches: int | str = 3, stages: int = 2, scale: int = 4, window: int = 3, **style: Unpack[Style]
) -> LutNet:
    """AutoLUT on MuLUT: from the second stage on, taps mix in the input of the stage before.

    The activation is GELU unless `style` names another.

    >>> build_mulut("ss", window=5, width=8).scale
    4
    """
    count = _count(branches)
    if stages < 1 or scale < 1:
        raise UsageError("a network needs at least one stage, and a scale of at least 1")
    units = UnitStyle(**{"activation": torch.nn.functional.gelu, **style})
    built: dict[str, LookupStage] = {}
    sources = [Plane(INPUT)]
    for number in range(1, stages + 1):
        size = scale if number == stages else 1
        previous = sources[-2] if number > 1 else None
        group = [units.branch(units.sampler(window), size**2, sources[-1], previous) for _ in range(count)]
        requant = direct(count) if number == stages else centred(4 * count)
        built[f"stage{number}"] = LookupStage({"in_c0": group}, requant, upscale=size)
        sources.append(Plane(f"stage{number}"))
    return LutNet(built, name=f"auto-mulut-{stages}")


def build_spf(branches: int | str = 1, scale: int = 4, window: int = 5, **style: Unpack[Style]) -> LutNet:
    """AutoLUT on SPF-LUT: blocks 2 to 4 and the up block mix in the input of an earlier block.

    >>> net = build_spf("s", scale=2, window=3, width=8)
    >>> [s.name for s in net.sites() if s.kind == "previous"][0]
    'convblock2.in_c0.input.prev_x'
    """
    units = UnitStyle(**style)
    samplers: list[spf.Sampler] = [lambda: units.sampler(window)] * _count(branches)
    return spf.assemble(samplers, scale, units, residual=True, name="auto-spf")
