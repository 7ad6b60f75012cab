"""Each rule on its own: small calls, equal to torch in float64 and within their rounding in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.layers.programs import (
    assert_equal_in_double,
    assert_rounding_is_bounded,
    doubled,
    exported,
    run_nodes,
)
from twinnet.layers.read_fx import read_fx

Case = tuple[Callable[..., Tensor | tuple[Tensor, ...]], tuple[tuple[int, ...], ...]]

A = (2, 3, 6, 5)


class Calls(nn.Module):
    """Several functions in one program, because exporting takes longer than everything else."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, inputs: list[list[Tensor]]) -> list[Tensor | tuple[Tensor, ...]]:
        return [function(*given) for (function, _), given in zip(self.cases, inputs, strict=True)]


def _check(cases: Sequence[Case], rtol: float = 1e-10) -> None:
    torch.manual_seed(0)
    narrow = [[torch.randn(shape) for shape in shapes] for _, shapes in cases]
    wide = doubled(narrow)
    program = exported(Calls(cases), (wide,))
    assert_equal_in_double(read_fx(program), run_nodes(program, (wide,), {}), rtol)
    program = exported(Calls(cases), (narrow,))
    graph = read_fx(program)
    assert_rounding_is_bounded(graph, run_nodes(program, (narrow,), {}))
    assert [(layer.op, layer.source) for layer in graph if layer.kind == "opaque"] == []


ANYWHERE = (
    "neg", "abs", "square", "exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "asinh", "atan",
    "erf", "erfc", "sigmoid", "tanh", "relu", "round", "floor", "ceil", "trunc", "sign", "isnan", "isinf",
    "isfinite", "selu", "celu",
)  # fmt: skip
POSITIVE = ("sqrt", "rsqrt", "reciprocal", "log", "log1p", "log2", "log10")
ACTIVATIONS = (
    "silu", "mish", "hardswish", "logsigmoid", "softsign", "relu6", "hardtanh", "leaky_relu", "elu",
    "hardshrink", "softshrink", "tanhshrink", "hardsigmoid", "gelu", "softplus",
)  # fmt: skip


def _all_on(namespace: object, names: Sequence[str], x: Tensor) -> tuple[Tensor, ...]:
    return tuple(getattr(namespace, name)(x) for name in names)


CASES: dict[str, dict[str, Case]] = {
    "one operand": {
        "anywhere": (lambda a: _all_on(torch, ANYWHERE, a), (A,)),
        "above zero": (lambda a: _all_on(torch, POSITIVE, a.abs() + 0.5), (A,)),
        "below one": (lambda a: _all_on(torch, ("asin", "acos", "atanh"), a.sin() * 0.9), (A,)),
        "above one": (lambda a: torch.acosh(a.abs() + 1.5), (A,)),
        "activations": (lambda a: _all_on(F, ACTIVATIONS, a), (A,)),
    },
    "arithmetic": {
        "add alpha": (lambda a, b: torch.add(a, b, alpha=0.3), (A, A)),
        "sub alpha": (lambda a, b: torch.sub(a, b, alpha=3), (A, (5,))),
        "rsub": (lambda a: torch.rsub(a, 0.1, alpha=2), (A,)),
        "number first": (lambda a: 0.1 - a / 3 + 2.5 * a, (A,)),
        "number over": (lambda a: 1.7 / (a.abs() + 1), (A,)),
        "div floor": (lambda a: torch.div(a, 0.7, rounding_mode="floor"), (A,)),
        "div trunc": (lambda a, b: torch.div(a, b.abs() + 0.5, rounding_mode="trunc"), (A, A)),
        "floor divide": (lambda a: a // 0.3, (A,)),
        "remainder": (lambda a: torch.remainder(a, 0.7), (A,)),
        "fmod": (lambda a: torch.fmod(a, 0.7), (A,)),
        "pow": (lambda a, b: (a.abs() + 0.1).pow(b), (A, A)),
        "pow number": (lambda a: a.pow(3) + (a.abs() + 1).pow(0.7) + 2.0**a, (A,)),
        "atan2": (lambda a, b: torch.atan2(a, b), (A, A)),
        "maximum": (lambda a, b: torch.maximum(a, b) - torch.minimum(a, b), (A, A)),
        "lerp": (lambda a, b: torch.lerp(a, b, 0.3) + torch.lerp(a, b, b), (A, A)),
        "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.3), (A, A, A)),
        "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1, value=-1.5), (A, A, A)),
        "compare": (
            lambda a, b: (a == b, a != b, a < 0.1, a <= b, a > b, a >= 0.1),
            (A, A),
        ),
        "logic": (
            lambda a, b: (
                (a > 0) & (b > 0),
                (a > 0) | (b > 0),
                (a > 0) ^ (b > 0),
                ~(a > 0),
                torch.logical_and(a, b > 1),
            ),
            (A, A),
        ),
        "where numbers": (lambda a: (torch.where(a > 0, a, 0.1), torch.where(a > 0, 0.1, a)), (A,)),
        "masked fill": (lambda a: a.masked_fill(a > 1, 0.1), (A,)),
        "whole numbers": (
            lambda a: (a.int() / 3, a.int().sum() * 2, a.int() // 2, a.int().float().mean()),
            (A,),
        ),
        "whole numbers to real": (lambda a: (a.int().exp(), torch.sqrt(a.int().abs()), a.int() * 0.5), (A,)),
        "bits": (lambda a: (a.int() & 3, a.int() | 4, a.int() ^ 5, ~a.int()), (A,)),
    },
    "activations": {
        "clamp": (lambda a: (a.clamp(-0.1, 0.3), a.clamp(min=0.1), a.clamp(max=0.1), a.clamp_min(0.2)), (A,)),
        "clamp tensors": (lambda a, b: torch.clamp(a, b, b + 0.5), (A, A)),
        "prelu": (lambda a, w: F.prelu(a, w), (A, (3,))),
        "prelu one": (lambda a, w: F.prelu(a, w), (A, (1,))),
        "rrelu": (lambda a: F.rrelu(a), (A,)),
        "threshold": (lambda a: F.threshold(a, 0.1, 0.7), (A,)),
        "gelu tanh": (lambda a: F.gelu(a, approximate="tanh"), (A,)),
        "softplus": (lambda a: F.softplus(a, beta=2), (A,)),
        "glu": (lambda a: F.glu(a, 2), (A,)),
        "softmax": (lambda a: (a.softmax(1), F.log_softmax(a, -1), F.softmin(a, 2)), (A,)),
    },
    "linear": {
        "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1, 2), ((2, 3, 20), (4, 3, 3), (4,))),
        "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same", dilation=(1, 2)), (A, (4, 3, 2, 3))),
        "conv2d valid": (lambda x, w: F.conv2d(x, w, padding="valid"), (A, (4, 3, 2, 3))),
        "conv2d unbatched": (lambda x, w: F.conv2d(x, w, padding=(0, 1)), (A[1:], (4, 3, 2, 3))),
        "conv3d": (lambda x, w: F.conv3d(x, w, groups=2), ((1, 4, 4, 5, 6), (2, 2, 2, 3, 3))),
        "conv transpose": (
            lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), 1, (1, 0), groups=2, dilation=(1, 2)),
            ((2, 4, 5, 6), (4, 3, 3, 3), (6,)),
        ),
        "conv transpose 1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), ((2, 4, 5), (4, 3, 3))),
        "matmul": (lambda a, b: a @ b, ((2, 3, 4, 5), (5, 6))),
        "matmul vectors": (lambda a, b: (a @ b, a.mv(b[:5]), b.dot(b)), ((4, 5), (5,))),
        "mm bmm": (lambda a, b: (a[0].mm(b[0]), a.bmm(b)), ((2, 4, 5), (2, 5, 3))),
        "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.3, alpha=1.7), ((3,), (4, 5), (5, 3))),
        "baddbmm": (
            lambda c, a, b: torch.baddbmm(c, a, b, beta=0, alpha=0.5),
            ((2, 4, 3), (2, 4, 5), (2, 5, 3)),
        ),
        "addmv": (lambda c, a, b: torch.addmv(c, a, b, beta=0.5), ((4,), (4, 5), (5,))),
        "attention 3d": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
            ((2, 4, 8), (2, 6, 8), (2, 6, 5)),
        ),
        "attention masked": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m > -1, scale=0.2),
            ((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8), (2, 1, 5, 6)),
        ),
        "attention grouped": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
            ((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
        ),
    },
    "structure": {
        "views": (lambda a: (a.view(2, -1), a.flatten(1, 2), a.unflatten(2, (2, 3)), a.reshape(-1)), (A,)),
        "squeeze": (
            lambda a: (a.squeeze(), a.squeeze(0), a.squeeze(1), a.squeeze((0, 3)), a[None]),
            ((1, 3, 2, 1),),
        ),
        "transpose": (
            lambda a: (a.transpose(1, -1), a.mT, a.movedim(1, -1), a.swapaxes(0, 2), a[0, 0].t()),
            (A,),
        ),
        "movedim two": (lambda a: a.movedim((0, 1), (-1, 0)), (A,)),
        "repeat": (lambda a: (a.repeat(2, 1, 3), a.tile(2, 1), a.repeat(1, 2)), ((2, 3),)),
        "repeat interleave": (lambda a: (a.repeat_interleave(2, 1), a.repeat_interleave(3)), (A,)),
        "expand": (lambda a, b: (a.expand(4, -1, 3), b.expand_as(a)), ((2, 1), (2, 1))),
        "join": (lambda a, b: (torch.cat([a, b], -1), torch.stack([a, b], -1), torch.hstack([a, b])), (A, A)),
        "meshgrid": (
            lambda a, b: (*torch.meshgrid(a, b, indexing="ij"), *torch.meshgrid(a, b, indexing="xy")),
            ((3,), (4,)),
        ),
        "stacks": (lambda a, b: (torch.vstack([a, b]), *torch.broadcast_tensors(a, b[:1])), (A, A)),
        "split": (lambda a: (*a.split(2, 2), *a.chunk(2, 3), *a.unbind(1), *a.tensor_split(4, 2)), (A,)),
        "split some": (lambda a: a.split([1, 2, 3], 2)[1], (A,)),
        "slices": (
            lambda a: (a[..., 1:-1:2], a[:, -1], a.narrow(2, 1, 3), a[:, :, -3:], a[5:], a[:, 2:1]),
            (A,),
        ),
        "pad": (
            lambda a: (
                F.pad(a, (1, 2, 0, 3), value=0.1),
                F.pad(a, (1, 2, 2, 1), mode="reflect"),
                F.pad(a, (1, 2), mode="replicate")
                if a.dim() == 3
                else F.pad(a, (1, 2, 3, 4), mode="replicate"),
                F.pad(a, (1, 0, 2, 1), mode="circular"),
                F.pad(a, (-1, 1, 0, 0)),
            ),
            (A,),
        ),
        "shuffle": (
            lambda a: (F.channel_shuffle(a, 2), F.pixel_shuffle(a, 2), F.pixel_unshuffle(a, 2)),
            ((2, 4, 6, 4),),
        ),
        "flip roll": (
            lambda a: (a.flip((1, 3)), a.roll((1, -2), (2, 3)), a.roll(3), a.rot90(1, (2, 3))),
            (A,),
        ),
        "triangles": (lambda a: (a.tril(), a.triu(1)), (A,)),
        "unfold fold": (
            lambda a: (F.unfold(a, (2, 3), 2, 1), F.fold(F.unfold(a, 3, padding=1), (6, 5), 3, padding=1)),
            (A,),
        ),
        "windows": (
            lambda a: (a.unfold(2, 3, 2), a.diagonal(0, 2, 3), a.as_strided((3, 4), (5, 2), 1)),
            (A,),
        ),
        "cast": (lambda a: (a.to(torch.float64), a.int(), a > 0, (a > 0).float(), a.type_as(a)), (A,)),
    },
    "indexing": {
        "index": (lambda a: (a[:, [0, 2]], a[:, [0, 2], [1, 3]], a[[0, 1], :, [1, 2]], a[a > 0.5]), (A,)),
        "index masks": (
            lambda a: (a[a[:, :, 0, 0] > 0], a[:, a[0, :, :, 0] > 0], a[a[:, 0, 0, 0] > 0]),
            (A,),
        ),
        "index tensors": (lambda a, i: a[(i.abs() * 2).long().clamp(max=1)], (A, (4,))),
        "select index": (lambda a, i: a.index_select(1, (i.abs() * 2).long().clamp(max=2)), (A, (4,))),
        "gather": (lambda a, i: a.gather(1, (i.abs() * 2).long().clamp(max=2)), (A, (2, 4, 6, 5))),
        "scatter": (
            lambda a, i, s: (
                a.scatter(1, (i.abs() * 2).long().clamp(max=2)[:, :1], s),
                a.scatter(1, (i.abs() * 2).long().clamp(max=2)[:, :1], 0.1),
                a.scatter_add(1, (i.abs() * 2).long().clamp(max=2), s),
                a.scatter_reduce(1, (i.abs() * 2).long().clamp(max=2), s, "amax"),
            ),
            (A, A, A),
        ),
        "assign mask": (lambda a: torch.index_put(a, (a > 0.5,), torch.tensor(0.1)), (A,)),
        "assign rows": (
            lambda a, v: torch.index_put(a, (torch.tensor([1, 0]), torch.tensor([2, 1])), v),
            (A, (2, 6, 5)),
        ),
        "assign added": (
            lambda a, v: torch.index_put(a, (torch.tensor([1, 1]),), v, accumulate=True),
            (A, A),
        ),
        "embedding": (lambda w, i: F.embedding((i.abs() * 3).long().clamp(max=3), w), ((4, 5), (2, 6))),
    },
    "creation": {
        "filled": (
            lambda a: (
                torch.full((2, 3), 0.1) + a[0, 0, 0, 0],
                torch.zeros_like(a),
                a.new_ones(3),
                torch.full_like(a, 0.1),
            ),
            (A,),
        ),
        "ranges": (
            lambda a: (
                torch.arange(5),
                torch.arange(1, 7, 2),
                torch.arange(0.0, 1.0, 0.1),
                torch.eye(3),
                a + 1,
            ),
            (A,),
        ),
        "linspace": (lambda a: torch.linspace(-1, 1, 7) + a[0, 0, 0, 0], (A,)),
    },
    "reductions": {
        "sum": (lambda a: (a.sum(), a.sum(1), a.sum((-1, 0), keepdim=True), (a > 0).sum(2)), (A,)),
        "mean": (lambda a: (a.mean(), a.mean((2, 3)), a.prod(1), a.logsumexp(1), a.logsumexp((1, 2))), (A,)),
        "extremes": (
            lambda a: (a.amax(), a.amin((1, 2)), *a.max(1), *a.min(2, keepdim=True), a.max(), *a.aminmax()),
            (A,),
        ),
        "arg": (lambda a: (a.argmax(), a.argmax(1), a.argmin(-1, keepdim=True)), (A,)),
        "spread": (
            lambda a: (
                a.var(),
                a.std(1),
                a.var((1, 2), correction=0),
                *torch.var_mean(a, 1),
                a.std(1, False),
            ),
            (A,),
        ),
        "norms": (
            lambda a: (
                a.norm(),
                a.norm(dim=1),
                a.norm(p=1, dim=1),
                torch.linalg.vector_norm(a, float("inf"), 1),
            ),
            (A,),
        ),
        "truth": (lambda a: ((a > 0).any(), (a > 0).all(1), a.any(2), torch.count_nonzero(a, 1)), (A,)),
        "cumulate": (lambda a: (a.cumsum(1), a.cumprod(-1)), (A,)),
        "order": (
            lambda a: (
                *a.topk(2, 2),
                *a.topk(2, 1, largest=False),
                *a.sort(-1),
                a.argsort(1, descending=True),
            ),
            (A,),
        ),
        "nonzero": (lambda a: (a > 0).nonzero(), (A,)),
    },
    "pooling": {
        "pool unbatched": (
            lambda a: (F.max_pool2d(a, 2), F.avg_pool2d(a, 2), F.adaptive_avg_pool2d(a, 2)),
            (A[1:],),
        ),
        "pool padded": (lambda a: F.max_pool2d(a, 3, 2, 1, return_indices=True), (A,)),
        "pool ceil": (lambda a: F.avg_pool2d(a, 4, 3, 1, ceil_mode=True, count_include_pad=False), (A,)),
        "pool ceil counted": (lambda a: F.avg_pool2d(a, 4, 3, 1, ceil_mode=True), (A,)),
        "adaptive": (lambda a: (F.adaptive_avg_pool2d(a, (None, 3)), F.adaptive_max_pool2d(a, 4)), (A,)),
        "adaptive 1d 3d": (
            lambda a: (
                F.adaptive_avg_pool1d(a[0], 2),
                F.adaptive_avg_pool3d(a, 2),
                F.adaptive_max_pool1d(a[0], 3),
            ),
            (A,),
        ),
    },
    "norms": {
        "batch norm": (
            lambda x, m, v, w: (
                F.batch_norm(x, m, v.abs() + 0.5, w, m, eps=1e-3),
                F.batch_norm(x, m, v.abs() + 0.5),
            ),
            (A, (3,), (3,), (3,)),
        ),
        "layer norm": (lambda x, w: (F.layer_norm(x, (6, 5), w, w), F.layer_norm(x, (5,))), (A, (6, 5))),
        "native layer norm": (lambda x: torch.native_layer_norm(x, (5,), None, None, 1e-5), (A,)),
        "cosine": (lambda a, b: (F.cosine_similarity(a, b), F.normalize(a, dim=2)), (A, A)),
        "group norm": (lambda x, w: (F.group_norm(x, 2, w, w), F.group_norm(x, 1)), ((2, 4, 6), (4,))),
        "instance norm": (lambda x, w: F.instance_norm(x, weight=w, bias=w, eps=1e-3), (A, (3,))),
        "instance norm fixed": (
            lambda x, m: F.instance_norm(x, m, m.abs() + 0.5, use_input_stats=False),
            (A, (3,)),
        ),
        "rms norm": (lambda x, w: (F.rms_norm(x, (5,), w), F.rms_norm(x, (6, 5), eps=1e-3)), (A, (5,))),
    },
    "resize": {
        "nearest": (
            lambda a: (
                F.interpolate(a, scale_factor=2),
                F.interpolate(a, size=(9, 4)),
                F.interpolate(a, scale_factor=1.5, mode="nearest-exact"),
                F.interpolate(a[0], scale_factor=3),
            ),
            (A,),
        ),
        "linear": (
            lambda a: (
                F.interpolate(a, scale_factor=2, mode="bilinear"),
                F.interpolate(a, scale_factor=(1.7, 0.6), mode="bilinear"),
                F.interpolate(a, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
                F.interpolate(a, size=(9, 1), mode="bilinear", align_corners=True),
                F.interpolate(a, size=(3, 1), mode="bilinear"),
                F.interpolate(a[0], size=8, mode="linear"),
                F.interpolate(a[None], size=(2, 4, 8), mode="trilinear", align_corners=True),
            ),
            (A,),
        ),
        "cubic": (
            lambda a: (
                F.interpolate(a, scale_factor=2, mode="bicubic"),
                F.interpolate(a, size=(9, 4), mode="bicubic", align_corners=True),
            ),
            (A,),
        ),
        "antialias": (
            lambda a: (
                F.interpolate(a, size=(3, 4), mode="bilinear", antialias=True),
                F.interpolate(a, size=(3, 8), mode="bicubic", antialias=True),
            ),
            (A,),
        ),
        "grid": (
            lambda a, g: (
                F.grid_sample(a, g, align_corners=False),
                F.grid_sample(a, g.tanh(), padding_mode="border", align_corners=True),
                F.grid_sample(a, g, padding_mode="reflection", align_corners=False),
            ),
            (A, (2, 4, 4, 2)),
        ),
        "affine grid": (lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False), ((2, 2, 3),)),
    },
}


@pytest.mark.parametrize("group", CASES)
def test_calls(group: str) -> None:
    # Coordinates of a resize are float32 in every engine, and so in the canonical layer.
    _check(list(CASES[group].values()), rtol=1e-5 if group == "resize" else 1e-10)


@pytest.mark.parametrize(("batch_first", "bidirectional"), [(False, False), (True, True)])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent(kind: type[nn.RNNBase], batch_first: bool, bidirectional: bool) -> None:
    torch.manual_seed(0)
    options = {"batch_first": batch_first, "bidirectional": bidirectional}
    options |= {"nonlinearity": "relu"} if kind is nn.RNN and batch_first else {}
    net = kind(5, 4, num_layers=2, bias=not bidirectional, **options).eval()
    x, h = torch.randn(3, 6, 5), torch.randn(4 if bidirectional else 2, 3 if batch_first else 6, 4)
    args = (x, (h, h * 0.5) if kind is nn.LSTM else h)
    program = exported(net, args)
    graph = read_fx(program)
    assert "opaque" not in {layer.kind for layer in graph}
    assert_rounding_is_bounded(graph, run_nodes(program, args, {}))
    program = exported(net.double(), doubled(args))
    assert_equal_in_double(read_fx(program), run_nodes(program, doubled(args), {}))


class Quantised(nn.Module):
    def forward(self, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        ops, span = torch.ops.quantized_decomposed, (-128, 127, torch.int8)
        a = ops.quantize_per_tensor(x, 0.05, 3, *span)
        scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
        b = ops.quantize_per_channel(w, scales, zeros, 0, *span)
        return (
            ops.dequantize_per_tensor(a, 0.05, 3, *span),
            ops.dequantize_per_channel(b, scales, zeros, 0, *span),
        )


def test_quantised() -> None:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    torch.manual_seed(0)
    args = (torch.randn(4, 5) * 3, torch.randn(3, 5) * 5)
    program = exported(Quantised(), args)
    graph = read_fx(program)
    assert {layer.kind for layer in graph} == {"quantize_linear", "dequantize_linear", "identity"}
    assert_rounding_is_bounded(graph, run_nodes(program, args, {}))
