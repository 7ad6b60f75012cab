"""Weights, normalisations, precision, quantisation and recurrent layers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from benchmarks.faults.edit import Edit, injector


def _convs(e: Edit, least: int = 1):
    return e.nodes(
        "Conv",
        where=lambda n: (w := e.constant(n, 1)) is not None and w.ndim == 4 and max(w.shape[2:]) >= least,
    )


def _linear(e: Edit):
    return e.nodes(
        "Conv",
        "MatMul",
        "Gemm",
        where=lambda n: e.constant(n, 1) is not None and e.constant(n, 1).dtype == np.float32,
    )


@injector("kernel mirrored")
def flipped(e: Edit):
    n = e.pick(_convs(e, 2))
    if n is None:
        return None
    w = e.constant(n, 1)
    axes = [(2, 3), (3,), (2,)][int(e.rng.integers(3))]
    if np.allclose(np.flip(w, axes), w):
        return None
    e.give(n, 1, np.flip(w, axes))
    return n, ["weights"]


@injector("kernel transposed")
def transposed(e: Edit):
    n = e.pick([n for n in _convs(e, 2) if e.constant(n, 1).shape[2] == e.constant(n, 1).shape[3]])
    if n is None:
        return None
    e.give(n, 1, e.constant(n, 1).swapaxes(2, 3))
    return n, ["weights"]


@injector("matrix transposed")
def matrix(e: Edit):
    def square(n) -> bool:
        w = e.constant(n, 1)
        return w.shape[0] == w.shape[1] > 1 and (w.ndim == 2 or w.shape[2:] == (1, 1))

    n = e.pick([n for n in _linear(e) if square(n)])
    if n is None:
        return None
    e.give(n, 1, e.constant(n, 1).swapaxes(0, 1))
    return n, ["weights"]


def _strong(e: Edit, w: np.ndarray) -> int:
    """One of the larger weights."""
    order = np.abs(w).reshape(-1).argsort()
    return int(order[-1 - int(e.rng.integers(max(w.size // 4, 1)))])


@injector("one weight")
def one_weight(e: Edit):
    n = e.pick(_linear(e))
    if n is None:
        return None
    w = e.constant(n, 1).copy()
    w.reshape(-1)[_strong(e, w)] *= float(e.pick([0.3, 1.7, 3.0]))
    e.give(n, 1, w)
    return n, ["weights"]


@injector("one bit of a weight")
def one_bit(e: Edit):
    n = e.pick(_linear(e))
    if n is None:
        return None
    w = np.ascontiguousarray(e.constant(n, 1)).copy()
    bits = w.reshape(-1).view(np.uint32)
    bits[_strong(e, w)] ^= np.uint32(1 << int(e.pick([20, 21, 22, 23, 24, 31])))
    e.give(n, 1, w)
    return n, ["weights"]


@injector("another checkpoint")
def stale(e: Edit):
    n = e.pick(_linear(e))
    if n is None:
        return None
    w = e.constant(n, 1)
    e.give(n, 1, (w + e.rng.standard_normal(w.shape) * 0.05 * w.std()).astype(np.float32))
    return n, ["weights"]


@injector("weights in half precision")
def weights_half(e: Edit):
    n = e.pick(_linear(e))
    if n is None:
        return None
    e.give(n, 1, e.constant(n, 1).astype(np.float16).astype(np.float32))
    return n, ["precision"]


@injector("weights in bfloat16")
def weights_bfloat16(e: Edit):
    import ml_dtypes

    n = e.pick(_linear(e))
    if n is None:
        return None
    e.give(n, 1, e.constant(n, 1).astype(ml_dtypes.bfloat16).astype(np.float32))
    return n, ["precision"]


@injector("weights in eight bits")
def weights_int8(e: Edit):
    n = e.pick(_linear(e))
    if n is None:
        return None
    w = e.constant(n, 1).astype(np.float64)
    s = np.abs(w).max() / 127
    e.give(n, 1, (np.round(w / s) * s).astype(np.float32))
    return n, ["quantisation"]


@injector("result in half precision")
def result_half(e: Edit):
    n = e.pick([n for n in e.floats() if float(np.abs(e.value(n)).max()) < 60000])
    if n is None:
        return None
    m = f"{n.output[0]}_half"
    to = int(
        e.pick([onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16])
        if e.opset >= 13
        else onnx.TensorProto.FLOAT16
    )
    e.after(
        n, lambda a, b: [helper.make_node("Cast", [a], [m], to=to), helper.make_node("Cast", [m], [b], to=1)]
    )
    return n, ["precision"]


_MOVES = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Gather", "Flatten", "MaxPool", "Identity")
"""What ONNX Runtime moves quantised steps across: the values are then rounded before it, not behind it."""


@injector("result in eight bits")
def result_int8(e: Edit):
    n = e.pick(
        [
            n
            for n in e.floats()
            if n.op_type not in _MOVES and e.value(n).size >= 2048 and float(np.abs(e.value(n)).max()) < 1e4
        ]
    )
    if n is None:
        return None
    v = e.value(n)
    s, z = e.new(np.array(np.abs(v).max() / 127, np.float32)), e.new(np.array(0, np.int8))
    m = f"{n.output[0]}_q"
    e.after(
        n,
        lambda a, b: [
            helper.make_node("QuantizeLinear", [a, s, z], [m]),
            helper.make_node("DequantizeLinear", [m, s, z], [b]),
        ],
    )
    return n, ["quantisation"]


@injector("epsilon")
def epsilon(e: Edit):
    n = e.pick(
        e.nodes("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization")
    )
    if n is None:
        return None
    e.set(n, epsilon=float(e.attribute(n, "epsilon", 1e-5)) * float(e.pick([100.0, 1000.0])))
    return n, ["eps"]


@injector("running mean left out")
def mean_zero(e: Edit):
    n = e.pick(
        e.nodes(
            "BatchNormalization", where=lambda n: e.constant(n, 3) is not None and np.any(e.constant(n, 3))
        )
    )
    if n is None:
        return None
    e.give(n, 3, np.zeros_like(e.constant(n, 3)))
    return n, ["statistics"]


@injector("running variance left out")
def variance_one(e: Edit):
    n = e.pick(e.nodes("BatchNormalization", where=lambda n: e.constant(n, 4) is not None))
    if n is None:
        return None
    e.give(n, 4, np.ones_like(e.constant(n, 4)))
    return n, ["statistics"]


@injector("standard deviation for variance")
def variance_root(e: Edit):
    n = e.pick(e.nodes("BatchNormalization", where=lambda n: e.constant(n, 4) is not None))
    if n is None:
        return None
    e.give(n, 4, np.sqrt(e.constant(n, 4)))
    return n, ["statistics"]


@injector("normalisation left out")
def norm_missing(e: Edit):
    n = e.pick(e.nodes("BatchNormalization", "LayerNormalization", "InstanceNormalization"))
    if n is None:
        return None
    e.become(n, "Identity")
    return n, ["normalisation"]


@injector("gates in another order")
def gates(e: Edit):
    n = e.pick(e.nodes("LSTM", "GRU", where=lambda n: all(e.constant(n, k) is not None for k in (1, 2))))
    if n is None:
        return None
    count = 4 if n.op_type == "LSTM" else 3
    order = [0, 2, 1, 3][:count]
    for place in (1, 2, 3):
        v = e.constant(n, place)
        if v is not None:
            parts = np.split(v, count * (2 if place == 3 else 1), axis=1)
            e.give(
                n,
                place,
                np.concatenate([parts[h + k] for h in range(0, len(parts), count) for k in order], axis=1),
            )
    return n, ["recurrent"]
