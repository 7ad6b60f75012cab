"""Quantised operators. The fused ones become dequantise, calculate, quantise."""

from __future__ import annotations

from twinnet.layers.from_onnx._node import Node, op
from twinnet.layers.from_onnx._tensors import dtype_from_onnx
from twinnet.layers.from_onnx.simple import sub_byte, target_type
from twinnet.layers.from_onnx.structure import window


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


@op("DequantizeLinear")
def _dequantize(node: Node) -> None:
    node.emit("dequantize_linear", axis=node.get("axis", 1), block=node.get("block_size", 0))


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
