"""Layout, channel order, operand order, axes and positions."""

from __future__ import annotations

import itertools

import numpy as np
from onnx import helper

from benchmarks.faults.edit import Edit, injector


@injector("other permutation in a Transpose")
def transpose(e: Edit):
    found = []
    for n in e.nodes("Transpose"):
        x = e.values.get(n.input[0])
        perm = list(e.attribute(n, "perm", []))
        if x is None or not perm:
            continue
        for other in itertools.permutations(range(x.ndim)):
            if list(other) != perm and [x.shape[a] for a in other] == [x.shape[a] for a in perm]:
                big = [a for a in other if x.shape[a] > 1]
                if big != [a for a in perm if x.shape[a] > 1]:
                    found.append((n, list(other)))
    chosen = e.pick(found)
    if chosen is None:
        return None
    e.set(chosen[0], perm=chosen[1])
    return chosen[0], ["layout"]


@injector("data in another layout before a Reshape")
def reshape(e: Edit):
    def fits(n) -> bool:
        x = e.values.get(n.input[0])
        return x is not None and x.ndim >= 2 and sum(s > 1 for s in x.shape) >= 2 and x.dtype == np.float32

    n = e.pick(e.nodes("Reshape", "Flatten", where=fits))
    if n is None:
        return None
    x = e.values[n.input[0]]
    big = [a for a in range(x.ndim) if x.shape[a] > 1]
    perm = list(range(x.ndim))
    a, b = big[-2], big[-1]
    perm[a], perm[b] = b, a
    name = e.new(np.array(x.shape, np.int64))
    middle = f"{n.input[0]}_moved"
    e.before(
        n,
        0,
        lambda s, t: [
            helper.make_node("Transpose", [s], [middle], perm=perm),
            helper.make_node("Reshape", [middle, name], [t]),
        ],
    )
    return n, ["layout"]


@injector("result mirrored")
def mirrored(e: Edit):
    n = e.pick([n for n in e.floats() if e.value(n).ndim == 4 and min(e.value(n).shape[2:]) > 2])
    if n is None:
        return None
    axis = int(e.rng.integers(2, 4))
    one, far, ax = (e.new(np.array([v], np.int64)) for v in (-1, -(2**31), axis))
    step = e.new(np.array([-1], np.int64))
    e.after(n, lambda a, b: [helper.make_node("Slice", [a, one, far, ax, step], [b])])
    return n, ["layout"]


@injector("input channels reversed (BGR)")
def bgr(e: Edit):
    n = e.pick(e.nodes("Conv", where=lambda n: n.input[0] in {i.name for i in e.graph.input}))
    if n is None:
        return None
    count = e.constant(n, 1).shape[1] if e.constant(n, 1) is not None else 0
    if count != 3:
        return None
    order = e.new(np.array([2, 1, 0], np.int64))
    e.before(n, 0, lambda a, b: [helper.make_node("Gather", [a, order], [b], axis=1)])
    return n, ["channel order"]


@injector("two channels exchanged")
def exchanged(e: Edit):
    def fits(n) -> bool:
        return e.value(n).ndim >= 3 and e.value(n).shape[1] >= 4

    n = e.pick(
        [
            n
            for n in e.floats()
            if fits(n) and n.op_type in ("Conv", "BatchNormalization", "Add", "Relu", "Mul")
        ]
    )
    if n is None:
        return None
    v = np.moveaxis(e.value(n), 1, 0).reshape(e.value(n).shape[1], -1)
    a, b = e.rng.choice(len(v), 2, replace=False)
    if np.allclose(v[a], v[b], rtol=1e-2, atol=1e-4):
        return None
    order = np.arange(len(v))
    order[[a, b]] = order[[b, a]]
    name = e.new(order.astype(np.int64))
    e.after(n, lambda s, t: [helper.make_node("Gather", [s, name], [t], axis=1)])
    return n, ["channel order"]


@injector("operands of a difference or quotient exchanged")
def operands(e: Edit):
    n = e.pick(
        e.nodes(
            "Sub", "Div", "Pow", where=lambda n: e.value(n).dtype == np.float32 and n.input[0] != n.input[1]
        )
    )
    if n is None:
        return None
    n.input[0], n.input[1] = n.input[1], n.input[0]
    return n, ["operand order"]


@injector("operands of a Concat in another order")
def concat(e: Edit):
    def fits(n) -> bool:
        return (
            len(n.input) >= 2
            and e.value(n).dtype == np.float32
            and n.input[0] != n.input[1]
            and all(i in e.values for i in n.input[:2])
        )

    n = e.pick(e.nodes("Concat", where=fits))
    if n is None:
        return None
    n.input[0], n.input[1] = n.input[1], n.input[0]
    return n, ["operand order"]


@injector("axis of a Softmax")
def softmax(e: Edit):
    n = e.pick(e.nodes("Softmax", "LogSoftmax", where=lambda n: sum(s > 1 for s in e.value(n).shape) > 1))
    if n is None:
        return None
    shape = e.value(n).shape
    ours = int(e.attribute(n, "axis", -1)) % len(shape)
    e.set(n, axis=int(e.pick([a for a in range(len(shape)) if a != ours and shape[a] > 1])))
    return n, ["axis"]


@injector("axis of a reduction")
def reduction_axis(e: Edit):
    found = []
    for n in e.nodes("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
        x = e.values.get(n.input[0])
        axes = e.attribute(n, "axes") or (e.constant(n, 1).tolist() if e.constant(n, 1) is not None else None)
        if x is None or not axes or len(axes) != 1 or x.dtype != np.float32:
            continue
        ours = axes[0] % x.ndim
        found += [(n, a) for a in range(x.ndim) if a != ours and x.shape[a] == x.shape[ours] > 1]
    chosen = e.pick(found)
    if chosen is None:
        return None
    n, axis = chosen
    if e.attribute(n, "axes"):
        e.set(n, axes=[axis])
    else:
        e.give(n, 1, np.array([axis], np.int64))
    return n, ["axis"]


@injector("slice starts elsewhere")
def sliced(e: Edit):
    found = []
    for n in e.nodes("Slice", where=lambda n: e.value(n).dtype == np.float32 and len(n.input) >= 4):
        s, t, a = (e.constant(n, k) for k in (1, 2, 3))
        x = e.values.get(n.input[0])
        if (
            any(v is None for v in (s, t, a))
            or x is None
            or (len(n.input) > 4 and e.constant(n, 4) is not None and (e.constant(n, 4) != 1).any())
        ):
            continue
        for k in range(len(s)):
            size = x.shape[int(a[k])]
            begin = int(s[k]) + size * (s[k] < 0)
            end = int(t[k]) + size if t[k] < 0 else min(int(t[k]), size)
            if end < size:
                found.append((n, k, begin + 1, end + 1))
            elif begin > 0:
                found.append((n, k, begin - 1, end - 1))
    chosen = e.pick(found)
    if chosen is None:
        return None
    n, k, begin, end = chosen
    s, t = e.constant(n, 1).copy(), e.constant(n, 2).copy()
    s[k], t[k] = begin, end
    e.give(n, 1, s)
    e.give(n, 2, t)
    return n, ["index"]


@injector("gather off by one")
def gather(e: Edit):
    def fits(n) -> bool:
        return e.constant(n, 0) is not None and e.value(n).dtype == np.float32 and e.constant(n, 0).ndim == 2

    n = e.pick(e.nodes("Gather", where=fits))
    if n is None:
        return None
    one, zero = e.new(np.array(1, np.int64)), e.new(np.array(0, np.int64))
    m = f"{n.output[0]}_less"
    e.before(
        n, 1, lambda a, b: [helper.make_node("Sub", [a, one], [m]), helper.make_node("Max", [m, zero], [b])]
    )
    return n, ["index"]


@injector("result rolled by one")
def rolled(e: Edit):
    n = e.pick([n for n in e.floats() if e.value(n).ndim >= 3 and e.value(n).shape[-1] > 4])
    if n is None:
        return None
    zero, minus, end, ax = (e.new(np.array([v], np.int64)) for v in (0, -1, 2**31 - 1, e.value(n).ndim - 1))
    a, b = f"{n.output[0]}_head", f"{n.output[0]}_tail"

    def make(s: str, t: str):
        return [
            helper.make_node("Slice", [s, minus, end, ax], [b]),
            helper.make_node("Slice", [s, zero, minus, ax], [a]),
            helper.make_node("Concat", [b, a], [t], axis=e.values[t].ndim - 1),
        ]

    e.after(n, make)
    return n, ["index"]
