"""Operators whose attributes became inputs in later opsets, windows, resizing and recurrent operators."""

from __future__ import annotations

from typing import Any

import torch

from twinnet.onnx.operators._node import Node, op


@op("Reshape")
def _reshape(node: Node) -> None:
    node.emit("reshape", shape=node.get("shape"), allowzero=bool(node.get("allowzero", 0)))


@op("Split")
def _split(node: Node) -> None:
    sizes = node.get("split")
    count = len(node.outputs) if sizes is None and node.input(1) is None else None
    node.emit("split", axis=node.get("axis", 0), sizes=sizes, count=count)


@op("Pad")
def _pad(node: Node) -> None:
    pads = node.get("pads", node.get("paddings"))
    node.emit("pad", pads=pads, value=node.get("value"), mode=node.get("mode", "constant"))


_REDUCE = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceSumSquare": "reduce_sum_square",
}


@op(*_REDUCE)
def _reduce(node: Node) -> None:
    node.emit(
        _REDUCE[node.op],
        axes=node.get("axes"),
        keepdims=bool(node.get("keepdims", 1)),
        noop_with_empty_axes=bool(node.get("noop_with_empty_axes", 0)) or None,
    )


# ---- windows ---------------------------------------------------------------------------------------


def window(node: Node) -> dict[str, Any]:
    """Strides, pads and dilations; `auto_pad` only if it is SAME_UPPER or SAME_LOWER."""
    auto = {"SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}.get(node.get("auto_pad", "NOTSET"))
    pads = None if auto or node.get("auto_pad") == "VALID" else node.get("pads")
    return {
        "strides": node.get("strides"),
        "pads": pads,
        "dilations": node.get("dilations"),
        "auto_pad": auto,
    }


@op("Conv", "ConvInteger")
def _conv(node: Node) -> None:
    kind = "conv" if node.op == "Conv" else "conv_integer"
    node.emit(kind, group=node.get("group", 1), **window(node))


@op("ConvTranspose")
def _conv_transpose(node: Node) -> None:
    node.emit(
        "conv_transpose",
        group=node.get("group", 1),
        output_padding=node.get("output_padding"),
        output_shape=node.get("output_shape"),
        **window(node),
    )


def product(node: Node, **more: Any) -> dict[str, Any]:
    """Attributes of a matrix product: factor and transpositions, and those in `more`."""
    turned = {"trans_a": bool(node.get("transA", 0)), "trans_b": bool(node.get("transB", 0))}
    return {"alpha": node.get("alpha", 1.0), **more, **turned}


@op("Gemm")
def _gemm(node: Node) -> None:
    node.emit("gemm", **product(node, beta=node.get("beta", 1.0)))


@op("MaxPool", "AveragePool", "LpPool")
def _pool(node: Node) -> None:
    kind = {"MaxPool": "max_pool", "AveragePool": "average_pool", "LpPool": "lp_pool"}[node.op]
    extra: dict[str, Any] = {}
    if kind == "average_pool":
        extra["count_include_pad"] = bool(node.get("count_include_pad", 0))
    elif kind == "lp_pool":
        extra["p"] = node.get("p", 2)
    elif node.get("storage_order"):
        extra["storage_order"] = 1
    node.emit(
        kind,
        kernel=node.get("kernel_shape"),
        ceil_mode=bool(node.get("ceil_mode", 0)),
        **window(node),
        **extra,
    )


@op("BatchNormalization")
def _batch_norm(node: Node) -> None:
    if node.get("training_mode", 0):
        raise ValueError("batch normalisation in training mode")
    node.emit("batch_norm", node.inputs[:5], node.outputs[:1], eps=node.get("epsilon", 1e-5))


# ---- resize ----------------------------------------------------------------------------------------


@op("Resize")
def _resize(node: Node) -> None:
    if node.version < 11:
        _upsample(node)
        return
    node.emit(
        "resize",
        mode=node.get("mode", "nearest"),
        coordinates=node.get("coordinate_transformation_mode", "half_pixel"),
        nearest=node.get("nearest_mode", "round_prefer_floor"),
        cubic_a=node.get("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.get("exclude_outside", 0)),
        antialias=bool(node.get("antialias", 0)),
        extrapolation=node.get("extrapolation_value", 0.0),
        axes=node.get("axes"),
        policy=node.get("keep_aspect_ratio_policy", "stretch"),
    )


@op("Upsample")
def _upsample(node: Node) -> None:
    scales = node.get("scales")
    if scales is None and node.get("height_scale") is not None:
        scales = (1.0, 1.0, node.get("height_scale"), node.get("width_scale"))
    name = node.input(1) if scales is None else node.hold(torch.tensor(scales, dtype=torch.float32), "scales")
    mode = {"bilinear": "linear"}.get(node.get("mode", "nearest"), node.get("mode", "nearest"))
    node.emit("resize", [node.inputs[0], None, name], mode=mode, coordinates="asymmetric", nearest="floor")


# ---- recurrent -------------------------------------------------------------------------------------


@op("LSTM", "GRU", "RNN")
def _recurrent(node: Node) -> None:
    recurrent(node, node.op.lower())


def recurrent(node: Node, kind: str, inputs: list[str | None] | None = None, **extra: Any) -> None:
    """Emit an `lstm`, `gru` or `rnn` with the attributes of ONNX."""
    if kind == "gru":
        extra["linear_before_reset"] = bool(node.get("linear_before_reset", 0))
    if kind == "lstm":
        extra["input_forget"] = bool(node.get("input_forget", 0))
    node.emit(
        kind,
        inputs,
        direction=node.get("direction", "forward"),
        layout=node.get("layout", 0),
        activations=node.get("activations"),
        activation_alpha=node.get("activation_alpha"),
        activation_beta=node.get("activation_beta"),
        clip=node.get("clip"),
        **extra,
    )
