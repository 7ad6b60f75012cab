"""SPF-LUT: four blocks that each keep one channel and pass one on, a table across channels, an up block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Unpack

from twinnet.lut.net import LutNet
from twinnet.lut.nodes import AutoSample, Branch, LookupStage, Taps
from twinnet.lut.patterns import patterns as read_patterns
from twinnet.lut.plan import INPUT, Plane
from twinnet.lut.requants import centred, direct
from twinnet.restore.nets.style import Style, UnitStyle

__all__ = ["assemble", "build"]

Sampler = Callable[[], Taps | AutoSample]


def build(
    patterns: str | Iterable[str | Iterable[Iterable[int]]] = "sdy", scale: int = 4, **style: Unpack[Style]
) -> LutNet:
    """An SPF-LUT network; `scale=1` for restoration at the same size.

    >>> net = build("s", scale=2, width=8)
    >>> list(net.stage_names)
    ['convblock1', 'convblock2', 'convblock3', 'convblock4', 'channel', 'upblock']
    """
    samplers: list[Sampler] = [lambda offsets=offsets: Taps(offsets) for offsets in read_patterns(patterns)]
    return assemble(samplers, scale, UnitStyle(**style))


def assemble(
    samplers: Sequence[Sampler], scale: int, units: UnitStyle, *, residual: bool = False, name: str = "spf"
) -> LutNet:
    """The topology, for any samplers, with or without adaptive residuals to the input of the block before."""

    def branches(outputs: int, source: Plane, previous: Plane | None) -> list[Branch]:
        mixed = previous if residual else None
        return [units.branch(sampler(), outputs, source, mixed) for sampler in samplers]

    count = len(samplers)
    inputs = [Plane(INPUT), *(Plane(f"convblock{k}", 1) for k in (1, 2, 3))]
    stages: dict[str, LookupStage] = {}
    for k, source in enumerate(inputs):
        channels = 2 if k < 3 else 1
        group = branches(channels, source, inputs[k - 1] if k else None)
        stages[f"convblock{k + 1}"] = LookupStage({"in_c0": group}, centred(4 * count), channels)
    kept = [Plane(f"convblock{k}", 0) for k in (1, 2, 3, 4)]
    channel = Branch(Taps(((0, 0),) * 4), units.unit(4, 4), kept, units.padding, rotations=(0,))
    stages["channel"] = LookupStage({"": [channel]}, centred(1), channels=4)
    groups = {f"in_c{c}": branches(scale**2, Plane("channel", c), inputs[c]) for c in range(4)}
    stages["upblock"] = LookupStage(groups, direct(4, count), upscale=scale)
    return LutNet(stages, name=name)
