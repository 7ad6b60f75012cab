"""SR-LUT: one table, four rotations. `S` has 2x2 taps, `V` two and `F` three in a row."""

from __future__ import annotations

from twinnet.errors import UsageError
from twinnet.lut.bodies import PlainBody
from twinnet.lut.grid import Grid
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import Branch, LookupStage, Taps
from twinnet.lut.patterns import pattern
from twinnet.lut.plan import Interpolation, Padding
from twinnet.lut.requants import srlut_2021
from twinnet.lut.unit import Unit

__all__ = ["build"]

KINDS = {"S": "s", "V": "V", "F": "F"}


def build(
    kind: str = "S",
    scale: int = 4,
    grid: Grid | None = None,
    width: int = 64,
    padding: Padding = "reflect",
    interpolation: Interpolation = "simplex",
    compat: str = "",
) -> LutNet:
    """An SR-LUT network. `compat="srlut-2021"` repeats the published interpolation slip, for its own results.

    >>> build(scale=2).scale
    2
    """
    if kind not in KINDS:
        raise UsageError(f"no SR-LUT of kind {kind!r}", hint=f"known: {' '.join(KINDS)}")
    taps = Taps(pattern(KINDS[kind]))
    unit = Unit(
        PlainBody(taps.axes, scale**2, width), taps.axes, scale**2, grid, interpolation, compat=compat
    )
    stage = LookupStage({"in_c0": [Branch(taps, unit, padding=padding)]}, srlut_2021(), upscale=scale)
    return LutNet({"stage1": stage}, name=f"srlut-{kind}", network_rounding="C")
