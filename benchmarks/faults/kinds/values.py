"""Operators, constants, activations, scales and biases."""

from __future__ import annotations

import numpy as np
from onnx import helper

from benchmarks.faults.edit import Edit, injector

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu", "Gelu", "Clip", "Elu")


def _scalar(e: Edit, n) -> int | None:
    """Where a binary node reads a float constant of one element."""
    places = [
        p for p in (0, 1) if (c := e.constant(n, p)) is not None and c.size == 1 and c.dtype == np.float32
    ]
    return places[0] if len(places) == 1 else None


@injector("another operator")
def operator(e: Edit):
    def fits(n) -> bool:
        return (
            e.value(n).dtype == np.float32
            and n.input[0] != n.input[1]
            and all(e.constant(n, p) is None for p in (0, 1))
        )

    n = e.pick(e.nodes("Add", "Sub", "Mul", "Div", where=fits))
    if n is None:
        return None
    n.op_type = str(e.pick([o for o in ("Add", "Sub", "Mul", "Max") if o != n.op_type]))
    return n, ["operator"]


@injector("residual connection left out")
def residual(e: Edit):
    def fits(n) -> bool:
        a, b = (e.values.get(i) for i in n.input[:2])
        return (
            a is not None
            and b is not None
            and a.shape == b.shape == e.value(n).shape
            and a.dtype == np.float32
        )

    n = e.pick(e.nodes("Add", where=fits))
    if n is None:
        return None
    e.become(n, "Identity", [n.input[int(e.rng.integers(2))]])
    return n, ["operator"]


@injector("another function")
def unary(e: Edit):
    swap = {
        "Sqrt": "Abs",
        "Exp": "Abs",
        "Log": "Sqrt",
        "Reciprocal": "Neg",
        "Neg": "Abs",
        "Abs": "Neg",
        "Erf": "Tanh",
    }
    n = e.pick(e.nodes(*swap, where=lambda n: e.value(n).dtype == np.float32))
    if n is None:
        return None
    causes = ["operator"] if n.op_type != "Erf" else ["operator", "activation"]
    n.op_type = swap[n.op_type]
    return n, causes


@injector("another reduction")
def reduction(e: Edit):
    n = e.pick(
        e.nodes(
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            where=lambda n: e.value(n).dtype == np.float32 and e.constant(n, 1) is None and len(n.input) == 1,
        )
    )
    if n is None:
        return None
    n.op_type = {"ReduceSum": "ReduceMax", "ReduceMean": "ReduceMax", "ReduceMax": "ReduceMean"}[n.op_type]
    return n, ["operator"]


@injector("another constant")
def constant(e: Edit):
    n = e.pick(
        e.nodes(
            "Add",
            "Mul",
            "Div",
            "Sub",
            "Max",
            "Pow",
            where=lambda n: _scalar(e, n) is not None and e.value(n).dtype == np.float32,
        )
    )
    if n is None:
        return None
    place = _scalar(e, n)
    c = e.constant(n, place)
    factor = float(e.pick([0.5, 1.01, 1.1, 2.0]))
    e.give(n, place, (c * factor if float(c.reshape(-1)[0]) else c + factor).astype(np.float32))
    return n, ["constant"]


@injector("another bound of a Clip")
def bound(e: Edit):
    def fits(n) -> bool:
        c = e.constant(n, 2)
        return (
            c is not None
            and e.values.get(n.input[0]) is not None
            and float(e.values[n.input[0]].max()) > 0.5 * float(c)
        )

    n = e.pick(e.nodes("Clip", where=fits))
    if n is None:
        return None
    top = float(e.values[n.input[0]].max())
    new = float(e.pick([1.0, 2.0, 0.5 * top, 0.8 * top]))
    e.give(n, 2, np.array(min(new, 0.9 * top), np.float32))
    return n, ["activation", "constant"]


@injector("activation left out")
def activation_missing(e: Edit):
    n = e.pick(e.nodes(*_ACTIVATIONS))
    if n is None:
        return None
    e.become(n, "Identity")
    return n, ["activation"]


@injector("activation added")
def activation_added(e: Edit):
    n = e.pick(
        [
            n
            for n in e.floats()
            if n.op_type in ("Conv", "Add", "BatchNormalization", "MatMul", "Gemm")
            and float(e.value(n).min()) < 0
        ]
    )
    if n is None:
        return None
    op = str(e.pick(["Relu", "Tanh", "Sigmoid"]))
    e.after(n, lambda a, b: [helper.make_node(op, [a], [b])])
    return n, ["activation"]


@injector("another activation")
def activation_other(e: Edit):
    n = e.pick(e.nodes("Relu", "Sigmoid", "Tanh", "HardSigmoid", "LeakyRelu"))
    if n is None:
        return None
    if n.op_type == "Relu":
        e.become(n, "LeakyRelu", alpha=0.1) if e.rng.integers(2) else e.become(n, "Elu", alpha=1.0)
    elif n.op_type == "Sigmoid":
        e.become(n, "HardSigmoid", alpha=0.2, beta=0.5)
    elif n.op_type == "Tanh":
        e.become(n, "Softsign")
    elif n.op_type == "HardSigmoid":
        e.become(n, "Sigmoid")
    else:
        e.become(n, "Relu")
    return n, ["activation", "constant"] if n.op_type == "Relu" else ["activation"]


@injector("GELU by another formula")
def gelu(e: Edit):
    n = e.pick(e.nodes("Gelu"))
    if n is None:
        return None
    e.set(n, approximate="tanh" if e.attribute(n, "approximate", "none") == "none" else "none")
    return n, ["activation"]


@injector("slope of an activation")
def slope(e: Edit):
    n = e.pick(e.nodes("HardSigmoid", "LeakyRelu", "Elu"))
    if n is None:
        return None
    default = {"HardSigmoid": 0.2, "LeakyRelu": 0.01, "Elu": 1.0}[n.op_type]
    ours = float(e.attribute(n, "alpha", default))
    e.set(n, alpha=ours * float(e.pick([0.8, 1.25, 1.5])))
    return n, ["constant", "activation"]


@injector("values clamped")
def clamped(e: Edit):
    # In a smaller tensor a bound holds one element or two, and a bound that holds one fits any data.
    n = e.pick(
        [
            n
            for n in e.floats()
            if n.op_type in ("Conv", "Add", "MatMul", "Gemm", "BatchNormalization") and e.value(n).size >= 128
        ]
    )
    if n is None:
        return None
    low, high = (np.array(np.quantile(e.value(n), q), np.float32) for q in (0.02, 0.95))
    if not high > low:
        return None
    a, b = e.new(low), e.new(high)
    e.after(n, lambda s, t: [helper.make_node("Clip", [s, a, b], [t])])
    return n, ["activation"]


@injector("everything scaled")
def scaled(e: Edit):
    n = e.pick(
        [
            n
            for n in e.floats()
            if n.op_type in ("Conv", "MatMul", "Gemm", "Add", "BatchNormalization", "LayerNormalization")
        ]
    )
    if n is None:
        return None
    c = e.new(np.array(e.pick([0.99, 1.01, 1.5, 2.0, 0.5]), np.float32))
    e.after(n, lambda a, b: [helper.make_node("Mul", [a, c], [b])])
    return n, ["scale"]


@injector("one channel scaled")
def channel_scaled(e: Edit):
    n = e.pick(e.nodes("Conv", where=lambda n: e.constant(n, 1) is not None))
    if n is None:
        return None
    w = e.constant(n, 1).copy()
    w[int(e.rng.integers(len(w)))] *= float(e.pick([0.5, 0.9, 1.1, 1.5, 2.0, -1.0]))
    e.give(n, 1, w)
    return n, ["scale", "weights"]


@injector("all weights scaled")
def weights_scaled(e: Edit):
    n = e.pick(e.nodes("Conv", "MatMul", "Gemm", where=lambda n: e.constant(n, 1) is not None))
    if n is None:
        return None
    e.give(n, 1, e.constant(n, 1) * np.float32(e.pick([0.5, 1.02, 1.1, 127 / 128])))
    return n, ["scale"]


def _biased(e: Edit):
    found = [
        (n, 2)
        for n in e.nodes("Conv", "Gemm")
        if (b := e.constant(n, 2)) is not None and b.size > 1 and np.any(b)
    ]
    for n in e.nodes("Add", where=lambda n: e.value(n).dtype == np.float32):
        for p in (0, 1):
            c = e.constant(n, p)
            if c is not None and c.size > 1 and np.any(c):
                found.append((n, p))
    return found


@injector("bias of one channel")
def bias_channel(e: Edit):
    chosen = e.pick(_biased(e))
    if chosen is None:
        return None
    n, p = chosen
    b = e.constant(n, p).copy()
    k = int(np.abs(b).reshape(-1).argsort()[b.size // 2 :][int(e.rng.integers(b.size - b.size // 2))])
    b.reshape(-1)[k] *= float(e.pick([0.5, 1.5, 2.0, -1.0]))
    e.give(n, p, b)
    return n, ["bias"]


@injector("bias left out")
def bias_missing(e: Edit):
    chosen = e.pick(_biased(e))
    if chosen is None:
        return None
    n, p = chosen
    if n.op_type == "Add":
        other = e.values.get(n.input[1 - p])
        if other is None or other.shape != e.value(n).shape:
            return None
        e.become(n, "Identity", [n.input[1 - p]])
    else:
        del n.input[2:]
    return n, ["bias"]


@injector("input in another range")
def input_range(e: Edit):
    names = {i.name for i in e.graph.input}
    n = e.pick(e.nodes("Conv", where=lambda n: n.input[0] in names))
    if n is None:
        return None
    a, b = e.new(np.array(0.5, np.float32)), e.new(np.array(0.5, np.float32))
    m = f"{n.input[0]}_half"
    e.before(n, 0, lambda s, t: [helper.make_node("Mul", [s, a], [m]), helper.make_node("Add", [m, b], [t])])
    return n, ["preprocessing"]
