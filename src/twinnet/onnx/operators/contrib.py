"""Operators that onnxruntime's own optimiser makes (domain com.microsoft), made of smaller layers."""

from __future__ import annotations

from typing import Any

from twinnet.onnx.operators._node import Node, op
from twinnet.onnx.operators.simple import renamed
from twinnet.onnx.operators.structure import product, window

_MS = "com.microsoft"

_ACTIVATION: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "Clip": ("clip", ("min", "max")),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
    "Elu": ("elu", ("alpha",)),
    "HardSwish": ("hard_swish", ()),
    "Softplus": ("softplus", ()),
    "Gelu": ("gelu", ()),
}


def _activate(node: Node, name: str | None, made: str) -> None:
    if not name:
        node.emit("identity", [made])
        return
    if name not in _ACTIVATION:
        raise ValueError(f"fused activation {name}")
    kind, names = _ACTIVATION[name]
    values = node.get("activation_params") or ()
    attrs: dict[str, Any] = dict(zip(names, values))
    node.emit(kind, [made], **attrs)


@op("FusedConv", domain=_MS)
def _fused_conv(node: Node) -> None:
    made = node.emit("conv", node.inputs[:3], [node.temp("conv")], group=node.get("group", 1), **window(node))
    if node.input(3) is not None:
        made = node.emit("add", [made, node.input(3)], [node.temp("sum")])
    _activate(node, node.get("activation"), made)


@op("FusedGemm", domain=_MS)
def _fused_gemm(node: Node) -> None:
    attrs = product(node, beta=node.get("beta", 1.0))
    made = node.emit("gemm", node.inputs[:3], [node.temp("gemm")], **attrs)
    node.attrs["activation_params"] = [
        node.get(f"activation_{p}")
        for p in ("alpha", "beta", "gamma")
        if node.get(f"activation_{p}") is not None
    ]
    _activate(node, node.get("activation"), made)


@op("FusedMatMul", domain=_MS)
def _fused_matmul(node: Node) -> None:
    if node.get("transBatchA", 0) or node.get("transBatchB", 0):
        raise ValueError("matrix product with transposed batches")
    node.emit("matmul", **product(node))


op("Gelu", domain=_MS)(renamed("gelu", {}))
op("QuickGelu", domain=_MS)(renamed("swish", {"alpha": 1.702}))
op("QuantizeLinear", domain=_MS)(renamed("quantize_linear", {"axis": 1}))
op("DequantizeLinear", domain=_MS)(renamed("dequantize_linear", {"axis": 1}))


@op("FastGelu", domain=_MS)
def _fast_gelu(node: Node) -> None:
    x = node.inputs[0]
    if node.input(1) is not None:
        x = node.emit("add", node.inputs[:2], [node.temp("sum")])
    node.emit("gelu", [x], approximate="tanh")


@op("BiasGelu", domain=_MS)
def _bias_gelu(node: Node) -> None:
    node.emit("gelu", [node.emit("add", node.inputs[:2], [node.temp("sum")])])


@op("BiasSoftmax", domain=_MS)
def _bias_softmax(node: Node) -> None:
    if node.get("is_inner_broadcast", 1) == 0 or node.get("axis", 1) not in (-1, (node.rank() or 0) - 1):
        raise ValueError("softmax with a bias over several axes")
    node.emit("softmax", [node.emit("add", node.inputs[:2], [node.temp("sum")])], axis=-1)


@op("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=_MS)
def _skip_norm(node: Node) -> None:
    plain = node.op == "SkipLayerNormalization"
    if any(node.outputs[1:3]):
        raise ValueError("mean and deviation of a skip normalisation")
    bias = node.input(4 if plain else 3)
    total = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3] else node.temp("sum")
    first = node.temp("skip") if bias is not None else total
    made = node.emit("add", node.inputs[:2], [first])
    if bias is not None:
        made = node.emit("add", [made, bias], [total])
    eps = node.get("epsilon", 1e-12 if plain else 1e-5)
    if plain:
        node.emit("layer_norm", [made, node.input(2), node.input(3)], node.outputs[:1], axis=-1, eps=eps)
    else:
        node.emit("rms_norm", [made, node.input(2)], node.outputs[:1], axis=-1, eps=eps)


@op("SimplifiedLayerNormalization", domain=_MS)
def _simplified(node: Node) -> None:
    node.emit(
        "rms_norm",
        node.inputs[:2],
        node.outputs[:1],
        axis=node.get("axis", -1),
        eps=node.get("epsilon", 1e-5),
    )
