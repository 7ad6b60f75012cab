"""Ten networks with one block that an engine really refuses or computes wrongly: each climb ends at that block."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.ladder.planted import net_with
from tests.needs import need_engine
from twinnet.ladder import ladder

X = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Recurrent(nn.Module):
    """A GRU in both directions along the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        made, _ = self.gru(x.mean(2).transpose(1, 2))
        return made.transpose(1, 2)[:, :, None] * x


class Filter(nn.Module):
    """A filter between two Fourier transforms."""

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.fft.rfft(x, dim=-1)
        return torch.fft.irfft(seen * torch.linspace(1, 0, seen.shape[-1]), n=x.shape[-1], dim=-1)


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x


class Item(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.narrow(3, 0, int(x.abs().max().clamp(4, 8).item()))


FAULTS = {
    "pixel shuffle": ("iree", "FAIL", nn.PixelShuffle(2), 12, 3),
    "gelu": ("iree", "FAIL", nn.GELU("tanh"), 4, 4),
    "selu": ("iree", "FAIL", nn.SELU(), 4, 4),
    "average pool": ("iree", "FAIL", nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=True), 4, 4),
    "reflect pad": ("iree", "ERROR", nn.ReflectionPad2d(4), 4, 4),
    "gru": ("iree", "ERROR", Recurrent(), 4, 4),
    "fourier": ("openvino", "FAIL", Filter(), 4, 4),
    "gelu in XNNPACK": ("executorch?delegate=xnnpack", "FAIL", nn.GELU("tanh"), 4, 4),
    "branch": ("onnxruntime", "ERROR", Branch(), 4, 4),
    "item": ("litert", "ERROR", Item(), 4, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_climb_ends_at_the_block(fault: str) -> None:
    twin, verdict, tail, channels, after = FAULTS[fault]
    need_engine(twin.partition("?")[0])
    found = ladder(net_with(tail, channels, after), X, twin).climbs[0]
    assert found.bad is not None and found.bad.name == "2", found
    assert found.bad.verdict == verdict
    assert found.smallest is not None and found.smallest.name.startswith("2.tail"), found
    # The two rungs below and the two blocks beside it are right.
    assert all(not r.bad for r in found.rungs if r.name in ("0", "1", "2.conv", "2.act"))
