"""Padding, dilation, pooling and resize."""

from __future__ import annotations

import numpy as np
from onnx import helper

from benchmarks.faults.edit import Edit, injector


def _kernel(e: Edit, n) -> list[int]:
    given = e.attribute(n, "kernel_shape")
    if given:
        return list(given)
    w = e.constant(n, 1)
    return list(w.shape[2:]) if w is not None else []


def _padded(e: Edit, *ops: str):
    """Windowed nodes with explicit pads of at least 1 at both ends of every windowed axis."""

    def fits(n) -> bool:
        pads = list(e.attribute(n, "pads", []))
        return len(pads) == 4 and min(pads) >= 1 and e.attribute(n, "auto_pad", "NOTSET") in ("NOTSET", "")

    return e.nodes(*ops, where=fits)


@injector("pads shifted on both axes")
def pads_shifted(e: Edit):
    n = e.pick(_padded(e, "Conv"))
    if n is None:
        return None
    p = list(e.attribute(n, "pads"))
    e.set(n, pads=[p[0] - 1, p[1] - 1, p[2] + 1, p[3] + 1])
    return n, ["padding"]


@injector("pads shifted on one axis")
def pads_one_axis(e: Edit):
    n = e.pick(_padded(e, "Conv", "MaxPool", "AveragePool"))
    if n is None:
        return None
    p = list(e.attribute(n, "pads"))
    k = int(e.rng.integers(2))
    p[k] += 1
    p[2 + k] -= 1
    e.set(n, pads=p)
    return n, ["padding"]


@injector("reflect instead of zero padding")
def pads_reflect(e: Edit):
    n = e.pick(_padded(e, "Conv"))
    if n is None:
        return None
    p = list(e.attribute(n, "pads"))
    mode = str(e.pick(["reflect", "edge"]))
    name = e.new(np.array([0, 0, p[0], p[1], 0, 0, p[2], p[3]], np.int64))
    e.before(n, 0, lambda a, b: [helper.make_node("Pad", [a, name], [b], mode=mode)])
    e.set(n, pads=[0, 0, 0, 0])
    return n, ["padding"]


@injector("mode of a Pad")
def pad_mode(e: Edit):
    n = e.pick(e.nodes("Pad"))
    if n is None:
        return None
    ours = e.attribute(n, "mode", "constant")
    e.set(n, mode="edge" if ours != "edge" else "constant")
    return n, ["padding"]


@injector("value of a Pad")
def pad_value(e: Edit):
    n = e.pick(
        e.nodes(
            "Pad",
            where=lambda n: (
                e.attribute(n, "mode", "constant") == "constant"
                and n.input[0] in e.values
                and e.values[n.input[0]].dtype == np.float32
            ),
        )
    )
    if n is None:
        return None
    old = e.constant(n, 2)
    e.give(n, 2, np.array((0.0 if old is None else float(old)) + 0.25, np.float32))
    return n, ["padding"]


@injector("dilation")
def dilation(e: Edit):
    def fits(n) -> bool:
        k = _kernel(e, n)
        return len(k) == 2 and max(k) > 1 and len(list(e.attribute(n, "pads", []))) == 4

    n = e.pick(e.nodes("Conv", where=fits))
    if n is None:
        return None
    k, p = _kernel(e, n), list(e.attribute(n, "pads"))
    ours = list(e.attribute(n, "dilations", [1, 1]))
    theirs = [2 if v == 1 else 1 for v in ours]
    grow = [(t - o) * (size - 1) for t, o, size in zip(theirs, ours, k)]
    p = [
        p[0] + grow[0] // 2,
        p[1] + grow[1] // 2,
        p[2] + grow[0] - grow[0] // 2,
        p[3] + grow[1] - grow[1] // 2,
    ]
    if min(p) < 0:
        return None
    e.set(n, dilations=theirs, pads=p)
    return n, ["stride"]


@injector("average instead of maximum pooling, or the other way")
def pool_kind(e: Edit):
    n = e.pick(e.nodes("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if n is None or (n.op_type == "MaxPool" and len(n.output) > 1):
        return None
    other = {
        "MaxPool": "AveragePool",
        "AveragePool": "MaxPool",
        "GlobalAveragePool": "GlobalMaxPool",
        "GlobalMaxPool": "GlobalAveragePool",
    }
    kept = [a for a in n.attribute if a.name not in ("count_include_pad", "storage_order", "dilations")]
    del n.attribute[:]
    n.attribute.extend(kept)
    n.op_type = other[n.op_type]
    return n, ["pooling"]


@injector("padding counted in the mean")
def pool_count(e: Edit):
    n = e.pick(e.nodes("AveragePool", where=lambda n: max(e.attribute(n, "pads", [0])) > 0))
    if n is None:
        return None
    e.set(n, count_include_pad=1 - int(e.attribute(n, "count_include_pad", 0)))
    return n, ["pooling"]


@injector("resize mode")
def resize_mode(e: Edit):
    n = e.pick(e.nodes("Resize"))
    if n is None:
        return None
    e.set(n, mode="linear" if e.attribute(n, "mode", "nearest") != "linear" else "nearest")
    return n, ["resize"]


@injector("resize coordinates")
def resize_coordinates(e: Edit):
    n = e.pick(e.nodes("Resize"))
    if n is None:
        return None
    ours = e.attribute(n, "coordinate_transformation_mode", "half_pixel")
    e.set(
        n,
        coordinate_transformation_mode=str(
            e.pick([m for m in ("half_pixel", "asymmetric", "align_corners") if m != ours])
        ),
    )
    return n, ["resize"]


@injector("resize rounding")
def resize_rounding(e: Edit):
    n = e.pick(e.nodes("Resize", where=lambda n: e.attribute(n, "mode", "nearest") == "nearest"))
    if n is None:
        return None
    ours = e.attribute(n, "nearest_mode", "round_prefer_floor")
    e.set(n, nearest_mode="ceil" if ours != "ceil" else "floor")
    return n, ["resize"]
