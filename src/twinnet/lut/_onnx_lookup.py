"""Table lookups in ONNX: rows of a table, dense or compressed, and the interpolation between them."""

from __future__ import annotations

from itertools import product

import numpy as np

from twinnet.lut._onnx_graph import GraphWriter
from twinnet.lut.plan import Table, Term

__all__ = ["lookup"]


def lookup(w: GraphWriter, term: Term, table: Table, values: str) -> str:
    """Numerators [planes, site rows, site columns, payload]."""
    u = term.units(table)
    dense = w.constant(table.values, np.int8, term.table)
    if not table.banded:
        return _interpolate(w, term, values, u, _Dense(w, dense, table.nodes, table.axes))
    assert table.coarse is not None
    first = w.op("Slice", values, *map(w.constant, ([0], [1], [-1])))
    others = w.op("Slice", values, *map(w.constant, ([1], [table.near + 1], [-1])))
    away = w.op("Abs", w.op("Sub", others, first))
    worst = w.op("ReduceMax", away, w.constant([-1]), keepdims=1)
    in_band = w.op("LessOrEqual", worst, w.constant(table.width * u))
    near = _interpolate(w, term, values, u, _Band(w, dense, table))
    near = w.op("Mul", near, w.constant(table.thin))
    thinned = w.constant(table.coarse, np.int8, f"{term.table}.coarse")
    coarse = _Dense(w, thinned, table.coarse_nodes, table.axes)
    far = _interpolate(w, term, values, u * table.thin, coarse)
    return w.op("Where", in_band, near, far)


def _interpolate(w: GraphWriter, term: Term, values: str, u: int, rows: _Dense | _Band) -> str:
    axes = rows.axes
    units = w.constant(u)
    bins = w.op("Min", w.op("Div", values, units), w.constant(rows.nodes - 2))
    frac = w.op("Sub", values, w.op("Mul", bins, units))
    if term.interpolation == "multilinear":
        return _multilinear(w, frac, bins, u, rows)
    falling, order = w.op("TopK", frac, w.constant([axes]), axis=-1, largest=1, sorted=1, outputs=2)
    tops = [w.op("Slice", falling, *map(w.constant, ([k], [k + 1], [-1]))) for k in range(axes)]
    weights = [w.op("Sub", units, tops[0])]
    weights += [w.op("Sub", tops[k], tops[k + 1]) for k in range(axes - 1)] + [tops[-1]]
    # One-hot rows of the sorted axes, added up along the walk, are the vertices relative to the lower
    # corner.
    steps = w.op("Gather", w.constant(np.eye(axes, dtype=np.int64)), order, axis=0)
    vertex, total = bins, w.op("Mul", weights[0], rows(bins))
    for k in range(axes):
        step = w.op("Gather", steps, w.constant(k), axis=3)
        vertex = w.op("Add", vertex, step)
        total = w.op("Add", total, w.op("Mul", weights[k + 1], rows(vertex)))
    return total if not term.compat else _slip(w, frac, bins, units, rows, total)


def _slip(w: GraphWriter, frac: str, bins: str, units: str, rows: _Dense | _Band, right: str) -> str:
    """The published interpolation slip of SR-LUT: see the plan."""
    a, b, c, d = (w.op("Slice", frac, *map(w.constant, ([k], [k + 1], [-1]))) for k in range(4))
    tests = [
        w.op("GreaterOrEqual", c, a), w.op("Greater", a, b), w.op("Greater", c, d),
        w.op("Greater", d, a),
    ]  # fmt: skip
    where = tests[0]
    for test in tests[1:]:
        where = w.op("And", where, test)
    corners = ((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1))
    pairs = ((units, c), (c, a), (a, d), (d, b))
    weights = [*(w.op("Sub", x, y) for x, y in pairs), b]
    wrong: str | None = None
    for corner, weight in zip(corners, weights):
        part = w.op("Mul", weight, rows(w.op("Add", bins, w.constant(corner))))
        wrong = part if wrong is None else w.op("Add", wrong, part)
    assert wrong is not None
    return w.op("Where", where, wrong, right)


def _multilinear(w: GraphWriter, frac: str, bins: str, units: int, rows: _Dense | _Band) -> str:
    """All corners at once, along an axis of their own: far fewer nodes than one chain per corner."""
    corners = np.array(list(product((0, 1), repeat=rows.axes)))
    cells = w.op("Unsqueeze", bins, w.constant([3]))
    inside = w.op("Unsqueeze", frac, w.constant([3]))
    # Per axis frac at an upper corner, units - frac at a lower one.
    sides = w.op(
        "Add",
        w.op("Mul", inside, w.constant(2 * corners - 1)),
        w.constant((1 - corners) * units),
    )
    weights = w.op("ReduceProd", sides, w.constant([-1]), keepdims=1)
    entries = rows(w.op("Add", cells, w.constant(corners)))
    return w.op("ReduceSum", w.op("Mul", weights, entries), w.constant([3]), keepdims=0)


class _Dense:
    """Rows of a dense table at vertices [..., axes]."""

    def __init__(self, writer: GraphWriter, table: str, nodes: int, axes: int) -> None:
        self.w, self.table, self.nodes, self.axes = writer, table, nodes, axes
        self.strides = writer.constant([[nodes ** (axes - 1 - k)] for k in range(axes)])

    def __call__(self, vertex: str) -> str:
        w = self.w
        flat = w.op("Squeeze", w.op("MatMul", vertex, self.strides), w.constant([-1]))
        return w.cast(w.op("Gather", self.table, flat, axis=0), np.int64)


class _Band:
    """Rows of the band of a compressed table at vertices [..., axes]."""

    def __init__(self, writer: GraphWriter, values: str, table: Table) -> None:
        self.w, self.values, self.table = writer, values, table
        self.nodes, self.axes = table.nodes, table.axes

    def __call__(self, vertex: str) -> str:
        w, t = self.w, self.table
        assert t.index is not None
        diameter = 2 * t.width + 1
        first = w.op("Slice", vertex, *map(w.constant, ([0], [1], [-1])))
        others = w.op("Slice", vertex, *map(w.constant, ([1], [t.near + 1], [-1])))
        away = w.op("Mod", w.op("Sub", others, first), w.constant(diameter))
        key = w.op("Concat", first, away, axis=-1)
        flat = w.op("MatMul", key, w.constant([[diameter ** (t.near - k)] for k in range(t.near + 1)]))
        row = w.op("Gather", w.constant(t.index.reshape(-1)), flat, axis=0)
        for k in range(t.near + 1, t.axes):
            rest = w.op("Slice", vertex, *map(w.constant, ([k], [k + 1], [-1])))
            row = w.op("Add", w.op("Mul", row, w.constant(t.nodes)), rest)
        # Vertices outside the band never carry weight; any row will do for them.
        safe = w.op("Min", w.op("Max", row, w.constant(0)), w.constant(len(t.values) - 1))
        flat_row = w.op("Squeeze", safe, w.constant([-1]))
        return w.cast(w.op("Gather", self.values, flat_row, axis=0), np.int64)
