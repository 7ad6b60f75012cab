"""What rounding of the inputs alone does to an output, where the network's own run is exact by luck."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from twinnet.checking.case import Case, read_network
from twinnet.checking.options import Options
from twinnet.checking.planning import open_both, plan_check
from twinnet.checking.sides import Sides
from twinnet.engines import parse_spec
from twinnet.judge.deployed import Ends, noise_of


class Near(nn.Module):
    """A difference of nearly equal numbers, which float32 computes exactly and no rounding before it survives."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - 1) * 1024


def test_inputs_that_are_rounded_move_an_exact_result() -> None:
    x = (1 + torch.arange(1, 65) * 2.0**-20).reshape(4, 16)
    loaded, feed = read_network(Near(), x, Options())
    case = Case.of(loaded, feed, parse_spec("onnxruntime"), Options(keep="none"))
    sides = Sides(case)
    try:
        opened = open_both(case, sides)
        plan, traces = plan_check(case, opened)
        ends = Ends(0, case.first, opened.plain, opened.twin_plain)
        (own,), (moved,) = noise_of(plan, ends).values(), noise_of(plan, ends, shaken=True).values()
        for trace in traces:
            trace.close()
    finally:
        sides.close()
    assert not own.any()
    assert 0.1 * 1024 * 2.0**-24 < np.median(moved) < moved.max() <= 1.1 * 1024 * 2.0**-24
