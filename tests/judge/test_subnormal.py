"""Numbers below the smallest normal float32: engines may compute with 0 in their place, which is no fault."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import twinnet


class Faint(nn.Module):
    """Two of four channels are subnormal; `gain` makes one of them visible again."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        with torch.no_grad():
            self.conv.weight[1] *= 1e-39
            self.conv.weight[2] *= 1e-41
        self.gain = gain
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y if self.gain == 1 else y * self.gain


PICTURE = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def flushing(net: Faint, *, wrong: float = 0.0):
    """The network as an engine without subnormal numbers computes it."""

    def run(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            y = net.conv(torch.from_numpy(x))
            y = torch.where(y.abs() < 2.0**-126, 0.0, y)
            y[:, 1] += wrong
            return {"output": (y * net.gain).numpy(), "conv2d": y.numpy()}

    return run


@pytest.mark.parametrize("twin", ["openvino", "flushing"])
def test_what_an_engine_makes_zero_is_no_finding(twin: str) -> None:
    net = Faint()
    found = twinnet.check(net, PICTURE, flushing(net) if twin == "flushing" else twin)
    assert found.verdict == "PASS", repr(found)
    assert any("could show a fault in 72 of 144 elements" in g.message for g in found.guards)


def test_nor_what_follows_from_it() -> None:
    """1e-39 x 1e20 is an ordinary number, and 0 x 1e20 is not."""
    net = Faint(gain=1e20)
    found = twinnet.check(net, PICTURE, flushing(net))
    assert found.verdict == "PASS", repr(found)


def test_but_a_fault_that_is_larger_is() -> None:
    net = Faint()
    found = twinnet.check(net, PICTURE, flushing(net, wrong=1e-30))
    assert found.verdict == "FAIL"
