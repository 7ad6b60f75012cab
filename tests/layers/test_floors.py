"""Floors: float32 arithmetic stays within them, a fault of a thousandth does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from twinnet.layers import Graph, Layer, evaluate_with_error

UNIT, TINY = 2.0**-24, 2.0**-126


def data(*shape: int, seed: int = 0, low: float | None = None) -> torch.Tensor:
    """float32 numbers of mixed size; positive ones from `low` on."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * torch.exp(torch.randn(shape, generator=generator))
    return x if low is None else x.abs() + low


def params(*shape: int, seed: int = 9) -> torch.Tensor:
    """float32 weights."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.3


Case = tuple[str, list[torch.Tensor], dict[str, Any], Callable[..., torch.Tensor]]

CASES: list[Case] = [
    (
        "conv",
        [data(2, 24, 17, 19), params(16, 24, 3, 3), params(16)],
        {"pads": (1, 1, 1, 1)},
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
    ),
    (
        "conv",
        [data(1, 16, 17, 19), params(16, 1, 5, 5)],
        {"pads": (2, 2, 2, 2), "group": 16},
        lambda x, w: F.conv2d(x, w, padding=2, groups=16),
    ),
    (
        "conv",
        [data(1, 12, 17, 19), params(8, 12, 3, 3)],
        {"strides": (2, 2), "dilations": (2, 1)},
        lambda x, w: F.conv2d(x, w, stride=2, dilation=(2, 1)),
    ),
    ("conv", [data(2, 6, 50), params(4, 6, 7)], {"pads": (3, 3)}, lambda x, w: F.conv1d(x, w, padding=3)),
    ("conv", [data(1, 3, 6, 7, 8), params(4, 3, 2, 3, 2)], {}, lambda x, w: F.conv3d(x, w)),
    (
        "conv_transpose",
        [data(1, 12, 9, 8), params(12, 6, 2, 2), params(6)],
        {"strides": (2, 2)},
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
    ),
    (
        "conv_transpose",
        [data(1, 12, 9, 8), params(12, 3, 4, 4)],
        {"strides": (2, 2), "pads": (1, 1, 1, 1), "group": 2},
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=2),
    ),
    ("matmul", [data(3, 20, 64), params(64, 30)], {}, torch.matmul),
    ("gemm", [data(20, 64), params(30, 64), params(30)], {"trans_b": True}, lambda a, b, c: a @ b.T + c),
    ("linear", [data(5, 20, 64), params(30, 64), params(30)], {}, F.linear),
    ("einsum", [data(4, 6, 32), data(4, 7, 32, seed=1)], {"equation": "bik,bjk->bij"},
     lambda a, b: torch.einsum("bik,bjk->bij", a, b)),
    ("attention", [data(1, 4, 12, 16), data(1, 4, 12, 16, seed=1), data(1, 4, 12, 16, seed=2)], {},
     F.scaled_dot_product_attention),
    ("attention", [data(1, 2, 12, 16), data(1, 2, 12, 16, seed=1), data(1, 2, 12, 16, seed=2)],
     {"is_causal": True},
     lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    ("add", [data(40, 50), data(40, 50, seed=1)], {}, torch.add),
    ("mul", [data(40, 50), data(50, seed=1)], {}, torch.mul),
    ("div", [data(40, 50), data(50, seed=1, low=0.1)], {}, torch.div),
    ("pow", [data(40, 50, low=0.1), torch.tensor(2.5)], {}, torch.pow),
    ("sqrt", [data(40, 50, low=0.0)], {}, torch.sqrt),
    ("rsqrt", [data(40, 50, low=0.01)], {}, torch.rsqrt),
    ("exp", [data(40, 50).clamp(-20, 20)], {}, torch.exp),
    ("log", [data(40, 50, low=0.0)], {}, torch.log),
    ("sin", [data(40, 50)], {}, torch.sin),
    ("atan", [data(40, 50)], {}, torch.atan),
    ("erf", [data(40, 50)], {}, torch.erf),
    ("sigmoid", [data(40, 50)], {}, torch.sigmoid),
    ("tanh", [data(40, 50)], {}, torch.tanh),
    ("swish", [data(40, 50)], {}, F.silu),
    ("gelu", [data(40, 50)], {}, F.gelu),
    ("gelu", [data(40, 50)], {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
    ("mish", [data(40, 50)], {}, F.mish),
    ("softplus", [data(40, 50)], {}, F.softplus),
    ("elu", [data(40, 50)], {}, F.elu),
    ("selu", [data(40, 50)], {}, F.selu),
    ("hard_sigmoid", [data(40, 50)], {"alpha": 1 / 6}, F.hardsigmoid),
    ("hard_swish", [data(40, 50)], {}, F.hardswish),
    ("leaky_relu", [data(40, 50)], {}, F.leaky_relu),
    ("prelu", [data(2, 5, 8, 8), params(5, 1, 1)], {}, lambda x, s: F.prelu(x, s.reshape(-1))),
    ("softmax", [data(40, 50)], {}, lambda x: torch.softmax(x, -1)),
    ("log_softmax", [data(40, 50)], {}, lambda x: torch.log_softmax(x, -1)),
    ("reduce_sum", [data(40, 500)], {"axes": (1,)}, lambda x: x.sum(1, keepdim=True)),
    ("reduce_mean", [data(40, 500)], {"axes": (1,)}, lambda x: x.mean(1, keepdim=True)),
    ("reduce_l2", [data(40, 500)], {"axes": (1,)}, lambda x: x.norm(dim=1, keepdim=True)),
    ("reduce_var", [data(40, 500)], {"axes": (1,)}, lambda x: x.var(1, keepdim=True)),
    ("reduce_log_sum_exp", [data(40, 500)], {"axes": (1,)}, lambda x: x.logsumexp(1, keepdim=True)),
    ("cumsum", [data(40, 500)], {"axis": 1}, lambda x: x.cumsum(1)),
    (
        "average_pool",
        [data(2, 4, 17, 19)],
        {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    ("global_average_pool", [data(2, 4, 17, 19)], {}, lambda x: x.mean((2, 3), keepdim=True)),
    ("adaptive_average_pool", [data(2, 4, 17, 19)], {"output_size": (5, 6)},
     lambda x: F.adaptive_avg_pool2d(x, (5, 6))),
    (
        "batch_norm",
        [data(2, 6, 9, 9), params(6), params(6, seed=3), params(6, seed=4), data(6, low=0.1)],
        {},
        lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b),
    ),
    ("layer_norm", [data(20, 96), params(96), params(96, seed=3)], {},
     lambda x, s, b: F.layer_norm(x, (96,), s, b)),
    ("layer_norm", [data(20, 96) + 1000.0, params(96), params(96, seed=3)], {},
     lambda x, s, b: F.layer_norm(x, (96,), s, b)),
    ("rms_norm", [data(20, 96), params(96)], {}, lambda x, s: F.rms_norm(x, (96,), s, 1e-5)),
    ("group_norm", [data(2, 8, 9, 9), params(8), params(8, seed=3)], {"groups": 4},
     lambda x, s, b: F.group_norm(x, 4, s, b)),
    ("instance_norm", [data(2, 8, 9, 9)], {}, lambda x: F.instance_norm(x)),
    ("lrn", [data(2, 8, 9, 9)], {"size": 5}, lambda x: F.local_response_norm(x, 5)),
    ("lp_norm", [data(20, 96)], {}, lambda x: F.normalize(x, dim=-1)),
    (
        "resize",
        [data(1, 3, 9, 11)],
        {"sizes": (1, 3, 21, 17), "mode": "linear"},
        lambda x: F.interpolate(x, (21, 17), mode="bilinear"),
    ),
    (
        "resize",
        [data(1, 3, 9, 11)],
        {"sizes": (1, 3, 21, 17), "mode": "cubic"},
        lambda x: F.interpolate(x, (21, 17), mode="bicubic"),
    ),
    ("grid_sample", [data(1, 3, 9, 11), torch.tanh(data(1, 6, 7, 2, seed=1))], {},
     lambda x, g: F.grid_sample(x, g, align_corners=False)),
]  # fmt: skip

IDS = [f"{kind}-{i}" for i, (kind, *_) in enumerate(CASES)]


def bounded(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    kind, inputs, attrs, _ = case
    names = tuple(f"x{i}" for i in range(len(inputs)))
    operands: tuple[str | None, ...] = names
    if kind == "instance_norm":
        operands = (*names, None, None)
    graph = Graph((Layer(kind, operands, ("y",), attrs),), names, ("y",))
    value, bound = evaluate_with_error(graph, dict(zip(names, inputs)), {}, unit=UNIT)["y"]
    assert bound is not None
    assert bound.dtype == torch.float32
    assert bound.shape == value.shape
    return value, bound


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_float32_stays_within_its_floor(case: Case) -> None:
    value, bound = bounded(case)
    got = case[3](*case[1])
    ratio = (got.to(torch.float64) - value).abs() / (bound + value.abs() * UNIT + TINY)
    assert float(ratio.max()) <= 4.0


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_fault_of_a_thousandth_does_not(case: Case) -> None:
    value, bound = bounded(case)
    got = case[3](*case[1]).to(torch.float64) * (1 + 1e-3)
    ratio = (got - value).abs() / (bound + value.abs() * UNIT + TINY)
    assert float(ratio.max()) > 4.0


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_inherited_errors_cover_moved_inputs(case: Case) -> None:
    """Move the inputs by at most their stated errors: the result moves by at most the bound."""
    kind, inputs, attrs, _ = case
    names = tuple(f"x{i}" for i in range(len(inputs)))
    operands: tuple[str | None, ...] = (*names, None, None) if kind == "instance_norm" else names
    graph = Graph((Layer(kind, operands, ("y",), attrs),), names, ("y",))
    generator = torch.Generator().manual_seed(5)
    first = inputs[0].to(torch.float64)
    error = first.abs() * 1e-5 * torch.rand(first.shape, generator=generator, dtype=torch.float64)
    given = dict(zip(names, inputs))
    value, bound = evaluate_with_error(graph, given, {"x0": error.to(torch.float32)}, unit=UNIT)["y"]
    _, own = evaluate_with_error(graph, given, {}, unit=UNIT)["y"]
    assert bound is not None
    assert bool((bound >= (0.0 if own is None else own)).all())
    noise = torch.randn(first.shape, generator=generator, dtype=torch.float64)
    for sign in (torch.ones_like(first), noise.sign()):
        moved, _ = evaluate_with_error(graph, {**given, "x0": first + sign * error}, {}, unit=UNIT)["y"]
        assert bool(((moved - value).abs() <= bound * 1.001 + 1e-30).all())


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_recurrent_layers_against_torch(kind: str) -> None:
    torch.manual_seed(0)
    size, hidden, steps = 12, 20, 30
    net: Any = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[kind](size, hidden)
    order = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}[kind]

    def gates(t: torch.Tensor) -> torch.Tensor:
        return torch.cat([t.chunk(len(order))[i] for i in order])

    w, r = gates(net.weight_ih_l0)[None], gates(net.weight_hh_l0)[None]
    b = torch.cat([gates(net.bias_ih_l0), gates(net.bias_hh_l0)])[None]
    x = torch.randn(steps, 2, size)
    attrs = {"linear_before_reset": True} if kind == "gru" else {}
    graph = Graph((Layer(kind, ("x", "w", "r", "b"), ("y", "h"), attrs),), ("x", "w", "r", "b"), ("y",))
    values = {n: t.detach() for n, t in (("x", x), ("w", w), ("r", r), ("b", b))}
    value, bound = evaluate_with_error(graph, values, {}, unit=UNIT)["y"]
    assert bound is not None
    got = net(x)[0].detach()[:, None].to(torch.float64)
    ratio = (got - value).abs() / (bound + value.abs() * UNIT + TINY)
    assert float(ratio.max()) <= 4.0
    assert float(((got * (1 + 1e-3) - value).abs() / (bound + value.abs() * UNIT + TINY)).max()) > 4.0
