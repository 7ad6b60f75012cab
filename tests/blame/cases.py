# ruff: noqa: E501 (a table reads best with one row per case)
"""Planted faults: the network's layers, and what the twin computes instead, in plain torch and float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.blame import Problem
from twinnet.layers.graph import Graph, Layer

__all__ = ["CASES", "Case", "seeded"]


def seeded(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    """The same random float32 tensor every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


@dataclass(frozen=True)
class Case:
    """`twin` computes what the twin has from the inputs; `said` must appear in the sentence.

    `graph` are the twin's own layers and constants, for the static test; `network` is the whole network where a case
    needs more of it than its segment.
    """

    name: str
    kind: str
    said: str
    layers: tuple[Layer, ...]
    inputs: Mapping[str, torch.Tensor]
    twin: Callable[..., torch.Tensor]
    constants: Mapping[str, Any] = field(default_factory=dict)
    graph: tuple[tuple[Layer, ...], Mapping[str, Any]] | None = None
    graph_inputs: frozenset[str] = frozenset()
    network: Graph | None = None

    def problem(self, *, static: bool = False) -> Problem:
        got = self.twin(**{n: v.clone() for n, v in self.inputs.items()})
        twin = None
        if static:
            assert self.graph is not None
            layers, constants = self.graph
            twin = Graph(layers, tuple(self.inputs), ("y",), {f"twin/{n}": v for n, v in constants.items()})
        return Problem(
            self.layers,
            self.constants,
            self.inputs,
            "y",
            got,
            twin=twin,
            graph_inputs=self.graph_inputs,
            network=self.network,
        )


X = seeded(1, 6, 12, 14)
W = seeded(8, 6, 3, 3, seed=1, scale=0.2)
B = seeded(8, seed=2)
ROWS = seeded(32, 16, seed=3)
M = seeded(16, 16, seed=4, scale=0.3)
SCALE, SHIFT = seeded(6, seed=5).abs() + 0.5, seeded(6, seed=6)
MEAN, VAR = seeded(6, seed=7), seeded(6, seed=8).abs() + 0.05
SPARSE = torch.cat([-seeded(1, 6, 32, 32, seed=9).abs(), seeded(1, 2, 32, 32, seed=10)], 1)
CONV = Layer(
    "conv",
    ("x", "w", "b"),
    ("y",),
    {"pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1), "group": 1},
)
NORM = Layer("batch_norm", ("x", "s", "h", "m", "v"), ("y",), {"eps": 1e-5})
NORMED = {"s": SCALE, "h": SHIFT, "m": MEAN, "v": VAR}
CONVED = {"w": W, "b": B}


def one(kind: str, *inputs: str | None, **attrs: Any) -> tuple[Layer, ...]:
    """A segment of one layer."""
    return (Layer(kind, inputs or ("x",), ("y",), attrs),)


RGB = seeded(1, 3, 24, 28, seed=11).sigmoid()
RGB_CONV = Layer(
    "conv", ("x", "w"), ("y",), {"strides": (1, 1), "dilations": (1, 1), "pads": (0,) * 4, "group": 1}
)
M2 = seeded(16, 16, seed=14, scale=0.3)
_QUERIES = (
    Layer("linear", ("x", "m"), ("y",), module="queries"),
    Layer("linear", ("x", "n"), ("k",), module="keys"),
)
_BIASED = tuple(
    Layer(x.kind, (*x.inputs, b), x.outputs, module=x.module) for x, b in zip(_QUERIES, "bc", strict=True)
)
_ATTENTION = (
    Layer("transpose", ("k",), ("t",), {"perm": (0, 1, 3, 2)}),
    Layer("matmul", ("q", "t"), ("p",)),
    Layer("mul", ("p", "s"), ("a",)),
    Layer("softmax", ("a",), ("w",), {"axis": -1}),
    Layer("matmul", ("w", "v"), ("y",)),
)


K = seeded(6, 1, 5, 5, seed=15, scale=0.3)
LINEAR = Layer("linear", ("x", "m"), ("h",))


def inner(layer: Layer) -> Layer:
    """A layer whose result another one reads before it is seen."""
    return replace(layer, outputs=("h",))


def renamed(layer: Layer, **attrs: Any) -> tuple[Layer, ...]:
    """The twin's form of a layer: its own constants, some attributes changed."""
    inputs = tuple(n if n in ("x", None) else f"twin/{n}" for n in layer.inputs)
    return (Layer(layer.kind, inputs, layer.outputs, {**layer.attrs, **attrs}),)


def changed(tensor: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    """A copy with one place set, or scaled if the value is a function."""
    made = tensor.clone()
    made[index] = value(made[index]) if callable(value) else value
    return made


def half(x: torch.Tensor) -> torch.Tensor:
    return x.half().float()


def _bn(x: torch.Tensor, s=SCALE, h=SHIFT, m=MEAN, v=VAR, eps: float = 1e-5) -> torch.Tensor:
    return F.batch_norm(x, m, v, s, h, eps=eps)


def _quantized(x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
    return ((x / scale).round() + zero).clamp(-128, 127).to(torch.int8)


def _gates(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """An LSTM over time, gates iofc, zero start."""
    h = c = torch.zeros(x.shape[1], r.shape[-1])
    seen = []
    for step in x:
        i, o, f, g = (step @ w[0].t() + h @ r[0].t()).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        seen.append(h)
    return torch.stack(seen)[:, None]


LSTM_W, LSTM_R = seeded(1, 20, 4, seed=10), seeded(1, 20, 5, seed=11)
FLIP = [0, 2, 1, 3]


def _reordered(w: torch.Tensor) -> torch.Tensor:
    parts = w.chunk(4, 1)
    return torch.cat([parts[k] for k in FLIP], 1)


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """The same channels in another number of heads."""
    batch, _, length, _ = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads, -1).transpose(1, 2)


def _pool(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=True)


def _resized(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)


Q = seeded(4, 64, seed=12) * 20
CASES: tuple[Case, ...] = (
    Case(
        "padding", "padding", "pads (0,2) where the network pads (1,1)", (CONV,), {"x": X},
        lambda x: F.conv2d(F.pad(x, (0, 2, 0, 2)), W, B), CONVED, (renamed(CONV, pads=(0, 0, 2, 2)), CONVED),
    ),
    Case("padding mode", "padding", "reflect", (CONV,), {"x": X}, lambda x: F.conv2d(F.pad(x, (1,) * 4, mode="reflect"), W, B), CONVED),
    Case(
        "dilation", "stride", "(2,2)", (CONV,), {"x": X}, lambda x: F.conv2d(x, W, B, padding=2, dilation=2), CONVED,
    ),
    Case(
        "layout", "layout", "(0,3,2,1)", one("transpose", perm=(0, 3, 1, 2)), {"x": seeded(1, 6, 6, 5)},
        lambda x: x.permute(0, 3, 2, 1), {}, (renamed(one("transpose", perm=(0, 3, 2, 1))[0]), {}),
    ),
    Case(
        "flattened NHWC", "layout", "NHWC", one("flatten"), {"x": X}, lambda x: x.permute(0, 2, 3, 1).flatten(1),
    ),
    Case("BGR", "channel order", "BGR", one("conv", "x", "w3", pads=(0,) * 4), {"x": X[:, :3]}, lambda x: F.conv2d(x.flip(1), W[:, :3]), {"w3": W[:, :3]}),
    Case("exchanged", "channel order", "channels 1 and 4", (NORM,), {"x": X}, lambda x: _bn(x)[:, [0, 4, 2, 3, 1, 5]], NORMED),
    Case(
        "operand order", "operand order", "b - a", one("sub", "x", "z"), {"x": ROWS, "z": seeded(32, 16, seed=9)}, lambda x, z: z - x,
        {}, (one("sub", "z", "x"), {}),
    ),
    Case(
        "operator", "operator", "max where the network has add", one("add", "x", "z"), {"x": ROWS, "z": seeded(32, 16, seed=9)},
        lambda x, z: torch.maximum(x, z), {}, (one("max", "x", "z"), {}),
    ),
    Case(
        "constant", "constant", "2.5 where the network has 3", one("add", "x", "c"), {"x": ROWS}, lambda x: x + 2.5,
        {"c": torch.tensor(3.0)}, (renamed(one("add", "x", "c")[0]), {"c": torch.tensor(2.5)}),
    ),
    Case("bound", "activation", "[0, 1]", one("clip", min=0.0, max=6.0), {"x": ROWS * 3}, lambda x: x.clamp(0, 1), {}, (one("clip", min=0.0, max=1.0), {})),
    Case("activation missing", "activation", "leaves out", one("relu"), {"x": ROWS}, lambda x: x, {}, (one("identity"), {})),
    Case(
        "activation added", "activation", "ReLU", (CONV,), {"x": X}, lambda x: F.relu(F.conv2d(x, W, B, padding=1)), CONVED,
    ),
    Case("GELU", "activation", "GELU tanh approximation instead of erf", one("gelu"), {"x": ROWS}, lambda x: F.gelu(x, approximate="tanh"), {}, (one("gelu", approximate="tanh"), {})),
    Case("leaky ReLU", "activation", "ReLU instead of leaky ReLU 0.1", one("leaky_relu", alpha=0.1), {"x": ROWS}, lambda x: x.relu()),
    Case("quick GELU", "activation", "GELU sigmoid approximation instead of SiLU", one("swish"), {"x": ROWS}, lambda x: x * (1.702 * x).sigmoid()),
    Case("sigmoid", "activation", "hard sigmoid", one("sigmoid"), {"x": ROWS}, lambda x: F.hardsigmoid(x), {}, (one("hard_sigmoid", alpha=1 / 6, beta=0.5), {})),
    Case(
        "bias of a channel", "bias", "bias of channel 3 is 1.5x", (CONV,), {"x": X},
        lambda x: F.conv2d(x, W, changed(B, 3, lambda v: v * 1.5), padding=1), CONVED,
    ),
    Case(
        "bias of a channel, in the file", "bias", "bias of channel 3", (CONV,), {"x": X},
        lambda x: F.conv2d(x, W, changed(B, 3, 0.25), padding=1), CONVED, (renamed(CONV), {"w": W, "b": changed(B, 3, 0.25)}),
    ),
    Case("bias missing", "bias", "leaves out the bias", (CONV,), {"x": X}, lambda x: F.conv2d(x, W, padding=1), CONVED),
    Case(
        "scale of a channel", "scale", "channel 5 are 2x", (CONV,), {"x": X},
        lambda x: F.conv2d(x, changed(W, 5, lambda v: v * 2), B, padding=1), CONVED, (renamed(CONV), {"w": changed(W, 5, lambda v: v * 2), "b": B}),
    ),
    Case("scale of all", "scale", "1.02x", (CONV,), {"x": X}, lambda x: F.conv2d(x, W, B, padding=1) * 1.02, CONVED),
    Case(
        "behind an activation", "scale", "weights of channel 2 are 0.5x",
        (Layer("conv", ("x", "w", "b"), ("c",), CONV.attrs), Layer("relu", ("c",), ("y",))), {"x": X},
        lambda x: F.relu(F.conv2d(x, changed(W, 2, lambda v: v / 2), B, padding=1)), CONVED,
    ),
    Case("eps", "eps", "eps 0.001 where the network has 1e-05", (NORM,), {"x": X}, lambda x: _bn(x, eps=1e-3), NORMED, (renamed(NORM, eps=1e-3), NORMED)),
    Case("statistics", "statistics", "variance", (NORM,), {"x": X}, lambda x: _bn(x, v=torch.ones(6)), NORMED),
    Case(
        "training mode", "statistics", "batch", (NORM,), {"x": X}, lambda x: F.batch_norm(x, None, None, SCALE, SHIFT, True, eps=1e-5), NORMED,
    ),
    Case(
        "normalisation", "normalisation", "RMS", one("layer_norm", "x", "g", axis=-1), {"x": ROWS + 1}, lambda x: F.rms_norm(x, (16,), M[0].abs() + 0.5, 1e-5),
        {"g": M[0].abs() + 0.5},
    ),
    Case("float16 result", "precision", "float16", (CONV,), {"x": X}, lambda x: half(F.conv2d(x, W, B, padding=1)), CONVED),
    Case("data rounded on the way", "precision", "reads a rounded to bfloat16", one("add", "a", "b"), {"a": X, "b": X.flip(0, 3)}, lambda a, b: a.bfloat16().float() + b),
    Case("a grid in some channels", "quantisation", "steps of 0.03125", one("relu", "x"), {"x": SPARSE}, lambda x: (x.relu() * 32).round() / 32),
    Case("bfloat16 weights", "precision", "bfloat16", (CONV,), {"x": X}, lambda x: F.conv2d(x, W.bfloat16().float(), B, padding=1), CONVED),
    Case("int8 weights", "quantisation", "8 bits", (CONV,), {"x": X}, lambda x: F.conv2d(x, (W / (W.abs().max() / 127)).round() * (W.abs().max() / 127), B, padding=1), CONVED),
    Case(
        "zero point", "quantisation", "zero point 0 instead of 3", one("dequantize_linear", "x", "s", "z"), {"x": _quantized(Q, 0.5, 3)},
        lambda x: x.float() * 0.5, {"s": torch.tensor(0.5), "z": torch.tensor(3, dtype=torch.int8)},
    ),
    Case(
        "rounding of a quantiser", "quantisation", "down", one("quantize_linear", "x", "s", "z"), {"x": Q}, lambda x: ((x / 0.5).floor() + 3).clamp(-128, 127).to(torch.int8),
        {"s": torch.tensor(0.5), "z": torch.tensor(3, dtype=torch.int8)},
    ),
    Case("mirrored kernel", "weights", "mirrored both ways", (CONV,), {"x": X}, lambda x: F.conv2d(x, W.flip(2, 3), B, padding=1), CONVED, (renamed(CONV), {"w": W.flip(2, 3), "b": B})),
    Case("transposed matrix", "weights", "transposed", one("matmul", "x", "m"), {"x": ROWS}, lambda x: x @ M.t(), {"m": M}),
    Case(
        "one weight", "weights", "weight (4,2,0,1) is 1.25", (CONV,), {"x": X}, lambda x: F.conv2d(x, changed(W, (4, 2, 0, 1), 1.25), B, padding=1), CONVED,
        (renamed(CONV), {"w": changed(W, (4, 2, 0, 1), 1.25), "b": B}),
    ),
    Case("one bit", "weights", "bit 31", one("matmul", "x", "m"), {"x": ROWS}, lambda x: x @ changed(M, (3, 7), lambda v: -v), {"m": M}),
    Case(
        "another checkpoint", "weights", "other weights", one("matmul", "x", "m"), {"x": seeded(64, 16, seed=20)}, lambda x: x @ (M + seeded(16, 16, seed=30, scale=0.02)), {"m": M},
        (renamed(one("matmul", "x", "m")[0]), {"m": M + seeded(16, 16, seed=30, scale=0.02)}),
    ),
    Case(
        "another checkpoint at few positions", "weights", "other weights",
        (Layer("conv", ("x", "w"), ("y",), {**CONV.attrs, "pads": (2,) * 4, "group": 6}),), {"x": seeded(1, 6, 6, 8, seed=22)},
        lambda x: F.conv2d(x, K + seeded(6, 1, 5, 5, seed=31, scale=0.02), padding=2, groups=6), {"w": K},
    ),
    Case("a weight before a ReLU", "weights", "weight (4,2,0,1) is 1.25", (inner(CONV), Layer("relu", ("h",), ("y",))), {"x": X}, lambda x: F.relu(F.conv2d(x, changed(W, (4, 2, 0, 1), 1.25), B, padding=1)), CONVED),
    Case("a weight before a log softmax", "weights", "weight (3,7)", (LINEAR, Layer("log_softmax", ("h",), ("y",))), {"x": ROWS}, lambda x: F.linear(x, changed(M, (3, 7), 2.2)).log_softmax(-1), {"m": M}),
    Case(
        "a channel of the queries, keys and values", "scale", "weights of channel 6 are 1.23456x", (LINEAR, Layer("split", ("h",), ("q", "y"), {"axis": -1, "sizes": (4, 12)})), {"x": ROWS},
        lambda x: F.linear(x, changed(M, 6, lambda v: v * 1.23456))[:, 4:], {"m": M},
    ),
    Case(
        "another layer's weights", "weights", "has the weights of keys linear", _QUERIES[:1], {"x": seeded(9, 16, seed=21)}, lambda x: F.linear(x, M2), {"m": M},
        (renamed(_QUERIES[0]), {"m": M2}), network=Graph(_QUERIES, ("x",), ("y", "k"), {"m": M, "n": M2}),
    ),
    Case(
        "another layer's weights and bias", "weights", "has the weights of keys linear, and its bias", _BIASED[:1], {"x": seeded(9, 16, seed=21)},
        lambda x: F.linear(x, M2, M[0]), {"m": M, "b": M[1]}, network=Graph(_BIASED, ("x",), ("y", "k"), {"m": M, "b": M[1], "n": M2, "c": M[0]}),
    ),
    Case("pooling kind", "pooling", "max pool", one("average_pool", kernel=(2, 2), strides=(2, 2)), {"x": X}, lambda x: F.max_pool2d(x, 2)),
    Case("pooling count", "pooling", "counts the padding", one("average_pool", kernel=(3, 3), strides=(1, 1), pads=(1,) * 4), {"x": X}, _pool),
    Case(
        "resize", "resize", "align_corners", one("resize", "x", None, "k", mode="linear", coordinates="half_pixel"), {"x": X}, _resized,
        {"k": torch.tensor([1.0, 1.0, 2.0, 2.0])},
    ),
    Case("softmax axis", "axis", "axis 1", one("softmax", axis=-1), {"x": seeded(2, 5, 5)}, lambda x: x.softmax(1), {}, (one("softmax", axis=1), {})),
    Case("reduction axis", "axis", "(1)", one("reduce_sum", axes=(2,), keepdims=False), {"x": seeded(3, 6, 6)}, lambda x: x.sum(1)),
    Case("rounding", "rounding", "half away from zero", one("round"), {"x": torch.arange(-20, 20) / 2.0}, lambda x: torch.sign(x) * (x.abs() + 0.5).floor()),
    Case(
        "slice", "index", "from 2 to 9", one("slice", "x", "a", "b", "k"), {"x": ROWS}, lambda x: x[:, 2:9],
        {"a": torch.tensor([1]), "b": torch.tensor([8]), "k": torch.tensor([1])},
    ),
    Case("gather", "index", "i-1", one("gather", "t", "x"), {"x": torch.tensor([3, 5, 9, 1, 0, 12])}, lambda x: M[(x - 1).clamp(0)], {"t": M}),
    Case(
        "heads", "attention", "2 heads", one("attention", "q", "k", "v"), {"q": seeded(1, 4, 7, 8), "k": seeded(1, 4, 7, 8, seed=1), "v": seeded(1, 4, 7, 8, seed=2)},
        lambda q, k, v: _split(F.scaled_dot_product_attention(_split(q, 2), _split(k, 2), _split(v, 2)), 4),
    ),
    Case("attention", "attention", "masks later positions", one("attention", "x", "x", "x"), {"x": seeded(1, 2, 7, 8)}, lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
    Case(
        "attention written out", "attention", "scales the scores by 0.176777", _ATTENTION, {"q": seeded(1, 4, 7, 8), "k": seeded(1, 4, 7, 8, seed=1), "v": seeded(1, 4, 7, 8, seed=2)},
        lambda q, k, v: (q @ k.transpose(2, 3) * 32**-0.5).softmax(-1) @ v, {"s": torch.tensor(8**-0.5)},
    ),
    Case("gates", "recurrent", "ifoc", one("lstm", "x", "w", "r"), {"x": seeded(6, 2, 4)}, lambda x: _gates(x, _reordered(LSTM_W), _reordered(LSTM_R)), {"w": LSTM_W, "r": LSTM_R}),
    Case("NaN", "nan", "0 where the network has NaN", one("sqrt"), {"x": ROWS}, lambda x: x.sqrt().nan_to_num(0.0)),
    Case(
        "mean and deviation of the input", "preprocessing", "normalised by the mean and deviation of ImageNet", (RGB_CONV,), {"x": RGB},
        lambda x: F.conv2d((x - torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)) / torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1), W[:, :3]), {"w": W[:, :3]},
        graph_inputs=frozenset({"x"}),
    ),
    Case(
        "grey input", "preprocessing", "grey, the mean", (RGB_CONV,), {"x": RGB}, lambda x: F.conv2d(x.mean(1, keepdim=True).expand_as(x), W[:, :3]), {"w": W[:, :3]},
        graph_inputs=frozenset({"x"}),
    ),
    Case(
        "input of 8 bits", "preprocessing", "rounded to 8 bits", (RGB_CONV,), {"x": RGB}, lambda x: F.conv2d((x * 255).round() / 255, W[:, :3]), {"w": W[:, :3]},
        graph_inputs=frozenset({"x"}),
    ),
    Case(
        "range of the input", "preprocessing", "[-1,1]", (CONV,), {"x": X}, lambda x: F.conv2d(x * 2 - 1, W, B, padding=1), CONVED,
        graph_inputs=frozenset({"x"}),
    ),
)  # fmt: skip
