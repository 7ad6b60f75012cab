"""The table network of the demo: a hand-made x2 upscaler, small enough to tabulate while you wait.

Each 2x2 patch gives the four pixels of its first pixel, leaning towards the neighbours the patch can see; the four
rotations see the other neighbours, and their mean is a smooth interpolation with a little sharpening.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from twinnet.lut import Grid, LutNet, Unit
from twinnet.lut.nodes import Branch, LookupStage, Taps
from twinnet.lut.patterns import patterns
from twinnet.lut.plan import INPUT, Plane
from twinnet.lut.requants import direct

__all__ = ["build"]


class Patch(nn.Module):
    """From the four pixels of a patch to the 2x2 block of its first pixel, in the range of a table entry."""

    def forward(self, taps: Tensor) -> Tensor:
        a, b, c, d = taps.unbind(-1)
        far = (9 * a + 3 * b + 3 * c + d) / 16
        block = torch.stack([a, 0.75 * a + 0.25 * b, 0.75 * a + 0.25 * c, far], -1)
        sharpened = block + 0.12 * (block - (a + b + c + d).unsqueeze(-1) / 4)
        # Four rotations add up to the pixel: an entry of 127 is half of 255.
        return sharpened.clamp(0, 1) * (255 / 127) / 4


def build() -> tuple[LutNet, tuple[Tensor]]:
    """The upscaler and an example image."""
    (offsets,) = patterns("s")
    unit = Unit(Patch(), 4, 4, Grid())
    stage = LookupStage({"in_c0": [Branch(Taps(offsets), unit, [Plane(INPUT)])]}, direct(1), upscale=2)
    return LutNet({"stage1": stage}, name="demo", task="sr").eval(), (torch.zeros(1, 3, 48, 64),)
