"""Quantised operators. The fused ones become dequantise, calculate, quantise."""

from __future__ import annotations

import torch

from twinnet.onnx.operators._node import Node, op
from twinnet.onnx.operators._tensors import dtype_from_onnx
from twinnet.onnx.operators.simple import sub_byte, target_type
from twinnet.onnx.operators.structure import product, recurrent, window

_MS = "com.microsoft"


@op("QuantizeLinear")
def _quantize(node: Node) -> None:
    code = node.get("output_dtype", 0)
    if sub_byte(node, 2) or (code and dtype_from_onnx(code) is None):
        raise NotImplementedError("quantisation to less than a byte")
    node.emit(
        "quantize_linear",
        axis=node.get("axis", 1),
        block=node.get("block_size", 0),
        to=target_type(code) if code else node.dtype(node.input(2)),
    )


@op("QLinearConv")
def _qlinear_conv(node: Node) -> None:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    bias = node.input(8)
    data = node.emit("dequantize_linear", [x, x_scale, x_zero], [node.temp("x")])
    weight = node.emit("dequantize_linear", [w, w_scale, w_zero], [node.temp("w")], axis=0)
    operands: list[str | None] = [data, weight]
    if bias is not None:  # the bias counts steps of x_scale * w_scale
        step = node.emit("mul", [x_scale, w_scale], [node.temp("step")])
        operands.append(node.emit("mul", [bias, step], [node.temp("bias")]))
    made = node.emit("conv", operands, [node.temp("y")], group=node.get("group", 1), **window(node))
    node.emit("quantize_linear", [made, y_scale, y_zero], axis=1)


@op("QLinearMatMul")
def _qlinear_matmul(node: Node) -> None:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs[:8]
    left = node.emit("dequantize_linear", [a, a_scale, a_zero], [node.temp("a")], axis=-2)
    right = node.emit("dequantize_linear", [b, b_scale, b_zero], [node.temp("b")], axis=-1)
    made = node.emit("matmul", [left, right], [node.temp("y")])
    node.emit("quantize_linear", [made, y_scale, y_zero], axis=-2)


# -- those of onnxruntime (domain com.microsoft): the zero points may be left out --------------------------------------


def _real(node: Node, place: int, name: str, axis: int = 1) -> str:
    """Dequantise the operand at `place`, which is followed by its scale and zero point."""
    parts = [node.input(place), node.input(place + 1), node.input(place + 2)]
    return node.emit("dequantize_linear", parts, [node.temp(name)], axis=axis)


def _held(node: Node, made: str, place: int) -> None:
    """Quantise a result with the scale at `place`; without a zero point, to the first operand's type."""
    zero = node.input(place + 1)
    to = None if zero is not None else node.dtype(node.input(0))
    node.emit("quantize_linear", [made, node.input(place), zero], axis=1, to=to)


@op("QLinearAdd", "QLinearMul", domain=_MS)
def _qlinear_two(node: Node) -> None:
    kind = node.op.removeprefix("QLinear").lower()
    _held(node, node.emit(kind, [_real(node, 0, "a"), _real(node, 3, "b")], [node.temp("y")]), 6)


@op("QLinearLeakyRelu", domain=_MS)
def _qlinear_leaky_relu(node: Node) -> None:
    alpha = node.get("alpha", 0.01)
    _held(node, node.emit("leaky_relu", [_real(node, 0, "x")], [node.temp("y")], alpha=alpha), 3)


@op("QLinearSoftmax", domain=_MS)
def _qlinear_softmax(node: Node) -> None:
    rank, axis = node.rank(), node.get("axis", -1)
    if node.get("opset", 13) < 13 and axis != -1 and (rank is None or axis % rank != rank - 1):
        raise NotImplementedError("a softmax over several axes")
    _held(node, node.emit("softmax", [_real(node, 0, "x")], [node.temp("y")], axis=axis), 3)


@op("QLinearConcat", domain=_MS)
def _qlinear_concat(node: Node) -> None:
    """The step of the result comes first, then each part with its own."""
    parts: list[str | None] = [_real(node, k, f"x{k}") for k in range(2, len(node.inputs), 3)]
    made = node.emit("concat", parts, [node.temp("y")], axis=node.get("axis", 1))
    zero = node.input(1)
    to = None if zero is not None else node.dtype(node.input(2))
    node.emit("quantize_linear", [made, node.input(0), zero], axis=1, to=to)


@op("QLinearGlobalAveragePool", "QLinearAveragePool", domain=_MS)
def _qlinear_pool(node: Node) -> None:
    if node.get("channels_last", 0):
        raise NotImplementedError("channels last")
    data, made = _real(node, 0, "x"), node.temp("y")
    if node.op == "QLinearGlobalAveragePool":
        node.emit("global_average_pool", [data], [made])
    else:
        node.emit(
            "average_pool",
            [data],
            [made],
            kernel=node.get("kernel_shape"),
            ceil_mode=bool(node.get("ceil_mode", 0)),
            count_include_pad=bool(node.get("count_include_pad", 0)),
            **window(node),
        )
    _held(node, made, 3)


@op("QLinearReduceMean", domain=_MS)
def _qlinear_mean(node: Node) -> None:
    attrs = {"axes": node.get("axes"), "keepdims": bool(node.get("keepdims", 1))}
    _held(node, node.emit("reduce_mean", [_real(node, 0, "x")], [node.temp("y")], **attrs), 3)


@op("QLinearWhere", domain=_MS)
def _qlinear_where(node: Node) -> None:
    """The step of the result is that of the seventh operand on; its type that of the first number."""
    made = node.emit("where", [node.inputs[0], _real(node, 1, "a"), _real(node, 4, "b")], [node.temp("y")])
    zero = node.input(8)
    to = None if zero is not None else node.dtype(node.input(1))
    node.emit("quantize_linear", [made, node.input(7), zero], axis=1, to=to)


@op("QLinearSigmoid", domain=_MS)
def _qlinear_sigmoid(node: Node) -> None:
    _held(node, node.emit("sigmoid", [_real(node, 0, "x")], [node.temp("y")]), 3)


@op("QGemm", domain=_MS)
def _qgemm(node: Node) -> None:
    attrs = product(node, beta=node.get("alpha", 1.0))
    a, b = _real(node, 0, "a"), _real(node, 3, "b", axis=0 if attrs["trans_b"] else 1)
    operands: list[str | None] = [a, b]
    if node.input(6) is not None:  # the bias counts steps of a_scale * b_scale
        step = node.emit("mul", [node.input(1), node.input(4)], [node.temp("step")])
        operands.append(node.emit("mul", [node.input(6), step], [node.temp("bias")]))
    if node.input(7) is None:  # float output, not quantised
        node.emit("gemm", operands, **attrs)
        return
    _held(node, node.emit("gemm", operands, [node.temp("y")], **attrs), 7)


@op("DynamicQuantizeLSTM", domain=_MS)
def _dynamic_lstm(node: Node) -> None:
    """Weights lie transposed; the data, and the state at each step, are rounded in steps of their own range."""
    data = node.emit("dynamic_step", [node.inputs[0]], [node.temp(n) for n in ("x", "x_scale", "x_zero")])
    real: list[str] = []
    for name, place, scale in (("w", 1, 8), ("r", 2, 10)):
        integers = node.constant(place)
        if integers is None:
            raise NotImplementedError("weights that are computed")
        held = node.hold(integers.transpose(1, 2).contiguous(), f"{name}_int8")
        parts = [held, node.input(scale), node.input(scale + 1)]
        real.append(node.emit("dequantize_linear", parts, [node.temp(name)], axis=0))
    bias = node.input(3)
    if bias is None:
        directions, _, size = node.constant(1).shape
        bias = node.hold(torch.zeros(directions, 2 * size), "b")
    recurrent(node, "lstm", [data, *real, bias, *(node.input(i) for i in range(4, 8))], rounds_state=True)
