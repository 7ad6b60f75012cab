"""Operators that look at one place of their operands."""

from __future__ import annotations

from typing import Any

import torch

from twinnet.tflite.operators._fixed_point import lines
from twinnet.tflite.operators._node import Node, op

_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: (name.lower(), {})
        for name in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "LOG", "NEG", "RELU", "ROUND")
    },
    **{
        name: (name.lower(), {})
        for name in ("RSQRT", "SIN", "SQRT", "SQUARE", "TANH", "HARD_SWISH", "SIGN", "ELU")
    },
    **{
        name: (name.lower(), {})
        for name in ("ADD", "SUB", "MUL", "DIV", "POW", "ATAN2", "EQUAL", "NOT_EQUAL")
    },
    **{name: (name.lower(), {}) for name in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "PRELU")},
    "LOGISTIC": ("sigmoid", {}),
    "RELU6": ("clip", {"min": 0.0, "max": 6.0}),
    "RELU_N1_TO_1": ("clip", {"min": -1.0, "max": 1.0}),
    "RELU_0_TO_1": ("clip", {"min": 0.0, "max": 1.0}),
    "MAXIMUM": ("max", {}),
    "MINIMUM": ("min", {}),
    "FLOOR_DIV": ("div", {"rounding": "floor"}),
    "FLOOR_MOD": ("mod", {}),
    "LOGICAL_AND": ("and", {}),
    "LOGICAL_OR": ("or", {}),
    "LOGICAL_NOT": ("not", {}),
    "SELECT_V2": ("where", {}),
    "ADD_N": ("sum", {}),
}


def _plain(node: Node) -> None:
    kind, attrs = _KINDS[node.op]
    node.emit(kind, **attrs, **lines(node))


for _name in _KINDS:
    op(_name)(_plain)


@op("LEAKY_RELU")
def _leaky(node: Node) -> None:
    node.emit("leaky_relu", alpha=node.options["alpha"])


@op("GELU")
def _gelu(node: Node) -> None:
    node.emit("gelu", approximate="tanh" if node.options["approximate"] else "none", **lines(node))


@op("SQUARED_DIFFERENCE")
def _squared(node: Node) -> None:
    off = node.emit("sub", outputs=[node.temp("difference")])
    node.emit("square", [off])


@op("SELECT")
def _select(node: Node) -> None:
    if node.rank(0) != node.rank(1):
        raise ValueError("a condition for each row")
    node.emit("where")


@op("CAST")
def _cast(node: Node) -> None:
    given = node.tensor(0)
    assert given is not None
    node.emit("cast", [node.raw(given, first=node.first)], to=getattr(torch, node.made().dtype))


@op("QUANTIZE")
def _quantize(node: Node) -> None:
    node.emit("identity", [node.operand(0)])


@op("DEQUANTIZE")
def _dequantize(node: Node) -> None:
    given = node.tensor(0)
    assert given is not None
    if given.dtype == "float16":
        node.emit("cast", [node.operand(0)], to=torch.float32)
        return
    if given.steps is None:
        raise ValueError("integers without steps")
    name = node.raw(given, first=node.first)
    axis = node.axis(given.steps.axis) if len(given.steps.scale) > 1 else 0
    node.emit("dequantize_linear", [name, *node.step_names(name, given.steps, given.dtype)], axis=axis)


@op("SOFTMAX", "LOG_SOFTMAX")
def _softmax(node: Node) -> None:
    if node.op == "SOFTMAX" and node.options["beta"] != 1.0:
        raise ValueError("a softmax with a temperature")
    node.emit(node.op.lower(), axis=node.axis(-1))


@op("L2_NORMALIZATION")
def _l2(node: Node) -> None:
    node.emit("lp_norm", axis=node.axis(-1), p=2, eps=1e-6)
