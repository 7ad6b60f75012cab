"""Pairs of 8-bit products that saturate in 16 bits."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import twinnet
from twinnet.blame import solve
from twinnet.blame.causes.pair_sums import propose
from twinnet.blame.problem import Problem
from twinnet.judge.expectation import Kept, KeptWeight
from twinnet.layers.graph import Graph, Layer
from twinnet.pairing import Transform


def by_hand(x: np.ndarray, w: np.ndarray, zero: int) -> np.ndarray:
    """A 3x3 convolution of integers with padding 1, channels last, its terms added up two by two in 16 bits."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=zero)
    out = np.zeros((len(w), *x.shape[1:]))
    rows = w.transpose(0, 2, 3, 1).reshape(len(w), -1)
    for i, j in itertools.product(range(x.shape[1]), range(x.shape[2])):
        column = padded[:, i : i + 3, j : j + 3].transpose(1, 2, 0).reshape(-1)
        for o, row in enumerate(rows):
            terms = [*(int(a) * int(b) for a, b in zip(column, row)), 0]
            sums = (terms[k] + terms[k + 1] for k in range(0, len(terms) - 1, 2))
            out[o, i, j] = sum(min(max(s, -32768), 32767) for s in sums) - zero * row.sum()
    return out


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_what_is_lost_is_what_the_instruction_loses(dtype: str) -> None:
    rng = np.random.default_rng(1)
    zero, scale, step = 20, 0.01, 0.02
    x = rng.integers(150, 256, (3, 4, 5))
    w = rng.integers(-127, 128, (4, 3, 3, 3))
    w[1] = np.abs(w[1])  # a channel that saturates often
    got = by_hand(x, w, zero) * scale * step
    weight = torch.from_numpy(w * scale)
    layer = Layer("conv", ("x", "w"), ("y",), {"pads": (1, 1, 1, 1)})
    half = torch.full(w.shape, scale / 2, dtype=torch.float64)
    kept = KeptWeight(0, 1, weight, weight, half, torch.zeros(w.shape, dtype=torch.bool))
    moved = -128 if dtype == "int8" else 0
    problem = Problem(
        (layer,),
        {"w": weight},
        {"x": torch.from_numpy((x - zero) * step)[None]},
        "y",
        torch.from_numpy(got)[None],
        kept=Kept(
            Graph((layer,), ("x",), ("y",), {"w": weight}),
            torch.full((1, 4, 4, 5), scale * step / 4, dtype=torch.float64),
            (kept,),
            None,
            None,
        ),
        steps={"x": Transform(scale=(step,), zero=(zero + moved,), dtype=dtype)},
    )
    assert not problem.agrees
    channels_last, channels_first = propose(problem)
    assert problem.score(channels_last.change(problem)).named()
    assert not problem.score(channels_first.change(problem)).named()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_a_network_that_is_quantised_itself(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(2)
    zero, step, scale, after = 20, 0.02, rng.uniform(0.01, 0.02, 6), 0.9
    x, w = rng.integers(150, 256, (9, 16)), rng.integers(-127, 128, (16, 6))
    w[:, 1] = np.abs(w[:, 1])
    pairs = (x[:, None, ::2] * w.T[None, :, ::2]) + (x[:, None, 1::2] * w.T[None, :, 1::2])
    made = (pairs.clip(-32768, 32767).sum(-1) - zero * w.sum(0)) * step * scale
    moved = 128 if dtype == torch.int8 else 0
    layers = (
        Layer("dequantize_linear", ("q", "s", "z"), ("x",)),
        Layer("dequantize_linear", ("w8", "ws"), ("w",), {"axis": 1}),
        Layer("matmul", ("x", "w"), ("y",)),
        Layer("quantize_linear", ("y", "t", "o"), ("r",)),
    )
    constants = {
        "s": torch.tensor(step),
        "z": torch.tensor(zero - moved, dtype=dtype),
        "w8": torch.from_numpy(w).to(torch.int8),
        "ws": torch.from_numpy(scale).float(),
        "t": torch.tensor(after),
        "o": torch.tensor(100, dtype=torch.uint8),
    }
    got = torch.from_numpy((made / after).round().clip(-100, 155) + 100).to(torch.uint8)
    problem = Problem(layers, constants, {"q": torch.from_numpy(x - moved).to(dtype)}, "r", got)
    assert not problem.agrees
    cause = solve(problem).cause
    assert cause is not None and cause.fact.code == "steps.pairs", cause


def in_16_bits() -> bool:
    """Whether onnxruntime saturates on this processor."""
    names = [("a", TensorProto.UINT8, [1, 2]), ("b", TensorProto.INT8, [2, 1])]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info(*name) for name in names],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    a, b = np.array([[255, 255]], np.uint8), np.array([[127], [127]], np.int8)
    return int(session.run(None, {"a": a, "b": b})[0][0, 0]) != 2 * 255 * 127


@pytest.mark.skipif(not in_16_bits(), reason="this processor adds up products in 32 bits")
def test_a_processor_without_vnni() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 2, 1)).eval()
    with torch.no_grad():
        net[0].weight.abs_()
    x = torch.rand(2, 4, 9, 9)
    found = twinnet.check(net, x, "onnxruntime?quantize=static")
    assert found.verdict == "FAIL"
    assert [f.cause.fact.code if f.cause else None for f in found.findings] == ["steps.pairs"]
    assert "reduce_range=1" in repr(found)
    assert twinnet.check(net, x, "onnxruntime?quantize=static&reduce_range=1").verdict == "PASS"


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(words))[0])


def test_dynamic_steps_of_an_lstm_and_of_a_product() -> None:
    torch.manual_seed(3)
    net, x = Words().eval(), torch.randint(0, 50, (2, 9))
    assert twinnet.check(net, x, "onnxruntime?quantize=dynamic&reduce_range=1").verdict == "PASS"
    plain = twinnet.check(net, x, "onnxruntime?quantize=dynamic")
    codes = {f.cause.fact.code if f.cause else "" for f in plain.findings}
    assert codes <= {"steps.pairs"}
    assert (plain.verdict == "FAIL") == in_16_bits()
