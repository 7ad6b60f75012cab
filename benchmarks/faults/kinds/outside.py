"""Faults that no family of causes describes: the right answer is "unknown". Planted in opaque twins only."""

from __future__ import annotations

import numpy as np
from onnx import helper

from benchmarks.faults.edit import Edit, injector


def _place(e: Edit):
    return e.pick([n for n in e.floats() if e.value(n).size >= 256 and float(np.abs(e.value(n)).max()) < 1e3])


@injector("outside: a wave on the values", opaque=True)
def wave(e: Edit):
    n = _place(e)
    if n is None:
        return None
    a, b = e.new(np.array(7.0 / float(np.ptp(e.value(n))), np.float32)), e.new(np.array(0.02, np.float32))
    x, y, z = (f"{n.output[0]}_wave{k}" for k in range(3))

    def make(s: str, t: str):
        return [
            helper.make_node("Mul", [s, a], [x]),
            helper.make_node("Sin", [x], [y]),
            helper.make_node("Mul", [y, b], [z]),
            helper.make_node("Add", [s, z], [t]),
        ]

    e.after(n, make)
    return n, []


@injector("outside: every element off by its own factor", opaque=True)
def grain(e: Edit):
    n = _place(e)
    if n is None:
        return None
    c = e.new((1 + 0.05 * e.rng.standard_normal(e.value(n).shape)).astype(np.float32))
    e.after(n, lambda s, t: [helper.make_node("Mul", [s, c], [t])])
    return n, []


@injector("outside: two faults in one layer", opaque=True)
def two(e: Edit):
    n = _place(e)
    if n is None or float(e.value(n).min()) >= 0 or e.value(n).ndim < 3:
        return None
    c = e.new(np.array(1.37, np.float32))
    order = e.new(np.roll(np.arange(e.value(n).shape[1]), 1).astype(np.int64))
    x, y = (f"{n.output[0]}_two{k}" for k in range(2))

    def make(s: str, t: str):
        return [
            helper.make_node("Relu", [s], [x]),
            helper.make_node("Mul", [x, c], [y]),
            helper.make_node("Gather", [y, order], [t], axis=1),
        ]

    e.after(n, make)
    return n, []
