"""Weights, normalisations, precision, quantisation and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable

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


def _changed(
    e: Edit,
    nodes: list[onnx.NodeProto],
    change: Callable[[np.ndarray], np.ndarray | None],
    cause: str,
    place: int = 1,
):
    """Give one of the nodes another constant in this place; nothing if there is no node or no change."""
    n = e.pick(nodes)
    made = None if n is None else change(e.constant(n, place))
    if made is None:
        return None
    e.give(n, place, made)
    return n, [cause]


@injector("kernel mirrored")
def flipped(e: Edit):
    def change(w: np.ndarray) -> np.ndarray | None:
        turned = np.flip(w, [(2, 3), (3,), (2,)][int(e.rng.integers(3))])
        return None if np.allclose(turned, w) else turned

    return _changed(e, _convs(e, 2), change, "weights")


@injector("kernel transposed")
def transposed(e: Edit):
    square = [n for n in _convs(e, 2) if e.constant(n, 1).shape[2] == e.constant(n, 1).shape[3]]
    return _changed(e, square, lambda w: w.swapaxes(2, 3), "weights")


@injector("matrix transposed")
def matrix(e: Edit):
    def square(n) -> bool:
        w = e.constant(n, 1)
        return w.shape[0] == w.shape[1] > 1 and (w.ndim == 2 or w.shape[2:] == (1, 1))

    return _changed(e, [n for n in _linear(e) if square(n)], lambda w: w.swapaxes(0, 1), "weights")


@injector("weights of another layer")
def borrowed(e: Edit):
    def lenders(n: onnx.NodeProto) -> list[np.ndarray]:
        w = e.constant(n, 1)
        others = (e.constant(m, 1) for m in _linear(e) if m.op_type == n.op_type)
        return [o for o in others if o.shape == w.shape and not np.allclose(o, w)]

    n = e.pick([n for n in _linear(e) if e.constant(n, 1).size >= 16 and lenders(n)])
    if n is None:
        return None
    found = lenders(n)
    e.give(n, 1, found[int(e.rng.integers(len(found)))])
    return n, ["weights"]


def _strong(e: Edit, w: np.ndarray) -> int:
    """One of the larger weights."""
    order = np.abs(w).reshape(-1).argsort()
    return int(order[-1 - int(e.rng.integers(max(w.size // 4, 1)))])


def _one_changed(e: Edit, change: Callable[[np.ndarray], np.ndarray]):
    """One weight; where few elements differ, another weight of its channel, a factor or the bias explains them, too."""
    e.least = 4
    return _changed(e, _linear(e), change, "weights")


@injector("one weight")
def one_weight(e: Edit):
    def change(w: np.ndarray) -> np.ndarray:
        w = w.copy()
        w.reshape(-1)[_strong(e, w)] *= float(e.pick([0.3, 1.7, 3.0]))
        return w

    return _one_changed(e, change)


@injector("one bit of a weight")
def one_bit(e: Edit):
    def change(w: np.ndarray) -> np.ndarray:
        w = np.ascontiguousarray(w).copy()
        bits = w.reshape(-1).view(np.uint32)
        bits[_strong(e, w)] ^= np.uint32(1 << int(e.pick([20, 21, 22, 23, 24, 31])))
        return w

    return _one_changed(e, change)


@injector("another checkpoint")
def stale(e: Edit):
    def change(w: np.ndarray) -> np.ndarray:
        return (w + e.rng.standard_normal(w.shape) * 0.05 * w.std()).astype(np.float32)

    made = _changed(e, _linear(e), change, "weights")
    # As many weights as places they are applied at: some of them make any result whatever.
    e.open = made is not None and e.positions(made[0]) <= e.weights_each(made[0])
    return made


@injector("weights in half precision")
def weights_half(e: Edit):
    return _changed(e, _linear(e), lambda w: w.astype(np.float16).astype(np.float32), "precision")


@injector("weights in bfloat16")
def weights_bfloat16(e: Edit):
    import ml_dtypes

    return _changed(e, _linear(e), lambda w: w.astype(ml_dtypes.bfloat16).astype(np.float32), "precision")


@injector("weights in eight bits")
def weights_int8(e: Edit):
    def change(w: np.ndarray) -> np.ndarray:
        wide = w.astype(np.float64)
        step = np.abs(wide).max() / 127
        return (np.round(wide / step) * step).astype(np.float32)

    return _changed(e, _linear(e), change, "quantisation")


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


@injector("result in eight bits", opaque=True)
def result_int8(e: Edit):
    # A file that declares the steps is held to them, and keeps them: no fault.
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


def _norms(e: Edit, place: int):
    """Batch norms whose mean (3) or variance (4) is a constant."""
    return e.nodes("BatchNormalization", where=lambda n: e.constant(n, place) is not None)


@injector("running mean left out")
def mean_zero(e: Edit):
    moved = [n for n in _norms(e, 3) if np.any(e.constant(n, 3))]
    return _changed(e, moved, np.zeros_like, "statistics", 3)


@injector("running variance left out")
def variance_one(e: Edit):
    return _changed(e, _norms(e, 4), np.ones_like, "statistics", 4)


@injector("standard deviation for variance")
def variance_root(e: Edit):
    return _changed(e, _norms(e, 4), np.sqrt, "statistics", 4)


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
