"""Ten networks with one block that an engine really refuses or computes wrongly: each climb ends at that block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
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
    "average pool": ("iree", "FAIL", nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=True), 4, 4),
    "gru": ("iree", "ERROR", Recurrent(), 4, 4),
    "fourier in IREE": ("iree", "ERROR", Filter(), 4, 4),
    "fourier": ("openvino", "ERROR", Filter(), 4, 4),
    "gelu in XNNPACK": ("executorch?delegate=xnnpack", "FAIL", nn.GELU("tanh"), 4, 4),
    "branch": ("onnxruntime", "ERROR", Branch(), 4, 4),
    "item": ("openvino", "ERROR", Item(), 4, 4),
}


def reflecting(path: Path) -> None:
    """An ONNX file with a reflect pad behind two convolutions; torch would write it as indexing."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((2, n, 3)).astype(np.float32) for n in (1, 2, 2)]
    held = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    held.append(numpy_helper.from_array(np.array([0, 0, 128, 0, 0, 128]), "pads"))
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="conv0", pads=[1, 1]),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh0"),
        helper.make_node("Conv", ["b", "w1"], ["c"], name="conv1", pads=[1, 1]),
        helper.make_node("Pad", ["c", "pads"], ["d"], name="pad", mode="reflect"),
        helper.make_node("Conv", ["d", "w2"], ["y"], name="conv2", pads=[1, 1]),
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [1, 1, 256]), ("y", [1, 2, 512]))
    ]
    graph = helper.make_graph(nodes, "reflecting", ends[:1], ends[1:], held)
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


@pytest.mark.slow
def test_the_climb_of_a_file_ends_at_its_reflect_pad(tmp_path: Path) -> None:
    need_engine("iree")
    reflecting(tmp_path / "net.onnx")
    found = ladder(tmp_path / "net.onnx", None, "iree").climbs[0]
    assert found.bad is not None and found.smallest is not None and found.fault is not None
    assert (found.bad.name, found.smallest.kind, found.fault.kind) == ("pad", "Pad", "conversion")


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
