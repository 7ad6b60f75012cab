"""One lookup of a plan, step by step: taps, values, bins, fractions, vertices, weights, result.

The arithmetic is that of `twinnet.lut.plan`, for a single site and in plain integers; `twinnet.lut.reference` does the
same for whole planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from twinnet.lut.plan import Plan, Sample, Stage, Table, Term

__all__ = ["Lookup", "Tap", "Vertex", "explain_lookup", "payload_at"]


@dataclass(frozen=True)
class Tap:
    """One pixel that is read: of which plane, where (after padding), its value; `outside` where padding chose it."""

    register: str
    channel: int
    row: int
    column: int
    value: int
    outside: bool


@dataclass(frozen=True)
class Vertex:
    """One row of the table with its weight: `node` counts grid nodes, `row` the row of the array it lies in."""

    node: tuple[int, ...]
    row: int
    weight: int
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Lookup:
    """A whole lookup. `values` are fixed point with `value_bits` fraction bits, `unit` of them lie between two nodes.

    `part` is `values` or, off the band of a compressed table, `coarse`. `numerator` over `denominator` is the Unit's
    output in pixel units, one per element of the payload.
    """

    table: str
    part: str
    taps: tuple[Tap, ...]
    previous: tuple[Tap, ...]
    values: tuple[int, ...]
    value_bits: int
    unit: int
    bins: tuple[int, ...]
    fractions: tuple[int, ...]
    vertices: tuple[Vertex, ...]
    numerator: tuple[int, ...]
    denominator: int


def payload_at(stage: Stage, rotation: int, y: int, x: int, channel: int = 0) -> tuple[int, int, int]:
    """Which site (row, column) and which element of its payload make a pixel of the register written.

    >>> from twinnet.demo.upscaler import build
    >>> from twinnet.lut import export, lower
    >>> stage = lower(export(build()[0])).stages[0]
    >>> payload_at(stage, 1, y=5, x=2)
    (2, 1, 3)
    """
    n = stage.upscale
    i, j, row, col = y // n, x // n, y % n, x % n
    u, v = ((row, col), (n - 1 - col, row), (n - 1 - row, n - 1 - col), (col, n - 1 - row))[rotation]
    return i, j, channel * n * n + u * n + v


def explain_lookup(
    plan: Plan,
    stage: Stage,
    term: Term,
    rotation: int,
    registers: Mapping[str, np.ndarray],
    row: int,
    column: int,
) -> Lookup:
    """What a term does at one site of its stage; `registers` are the planes it may read, [channels, rows, columns].

    >>> from twinnet.demo.upscaler import build
    >>> from twinnet.lut import export, lower
    >>> plan = lower(export(build()[0]))
    >>> stage = plan.stages[0]
    >>> plane = np.arange(12).reshape(1, 3, 4) * 20
    >>> found = explain_lookup(plan, stage, stage.terms[0], 0, {"input": plane}, 1, 2)
    >>> [tap.value for tap in found.taps], found.bins, found.fractions
    ([120, 140, 200, 220], (7, 8, 12, 13), (8, 12, 8, 12))
    >>> [vertex.weight for vertex in found.vertices], found.denominator
    ([4, 4, 8], 16)
    """
    table = plan.tables[term.table]
    sample = term.sample
    taps = _taps(sample, sample.planes, stage.cell, registers, rotation, row, column)
    values = _values(sample, [t.value for t in taps])
    previous: tuple[Tap, ...] = ()
    if term.blend is not None:
        previous = _taps(sample, term.blend.planes, stage.cell, registers, rotation, row, column)
        one = 1 << term.blend.gain_bits
        other = _values(sample, [t.value for t in previous])
        values = [
            (g * b + (one - g) * a + one // 2) >> term.blend.gain_bits
            for g, a, b in zip(term.blend.gains, values, other)
        ]
    unit, nodes, part, factor = term.units(table), table.nodes, "values", 1
    if table.banded:
        near = all(abs(v - values[0]) <= table.width * unit for v in values[1 : table.near + 1])
        if near:
            factor = table.thin
        else:
            unit, nodes, part = unit * table.thin, table.coarse_nodes, "coarse"
    bins = [min(v // unit, nodes - 2) for v in values]
    fractions = [v - b * unit for v, b in zip(values, bins)]
    weighted = _weights(bins, fractions, unit, term)
    vertices = tuple(_vertex(table, part, nodes, node, weight * factor) for node, weight in weighted)
    payload = range(table.payload)
    numerator = tuple(sum(v.weight * v.entries[k] for v in vertices) for k in payload)
    return Lookup(
        term.table,
        part,
        taps,
        previous,
        tuple(values),
        sample.value_bits,
        unit,
        tuple(bins),
        tuple(fractions),
        vertices,
        numerator,
        term.denominator(table),
    )


def _taps(
    sample: Sample,
    planes: tuple,
    cell: int,
    registers: Mapping[str, np.ndarray],
    rotation: int,
    row: int,
    column: int,
) -> tuple[Tap, ...]:
    found = []
    e = cell - 1
    for p, (dy, dx) in enumerate(sample.offsets):
        plane = sample.plane(p, planes)
        image = registers[plane.register][plane.channel]
        ty, tx = ((dy, dx), (dx, e - dy), (e - dy, e - dx), (e - dx, dy))[rotation]
        wanted = (cell * row + ty, cell * column + tx)
        y, x = (_inside(at, n, sample.padding) for at, n in zip(wanted, image.shape))
        found.append(Tap(plane.register, plane.channel, y, x, int(image[y, x]), (y, x) != wanted))
    return tuple(found)


def _inside(at: int, n: int, padding: str) -> int:
    if padding == "edge":
        return min(max(at, 0), n - 1)
    if n == 1:
        return 0
    folded = at % (2 * (n - 1))
    return folded if folded < n else 2 * (n - 1) - folded


def _values(sample: Sample, pixels: list[int]) -> list[int]:
    if sample.weights is None:
        return [p << sample.value_bits for p in pixels]
    shift = sample.weight_bits - sample.value_bits
    half = 1 << (shift - 1) if shift else 0
    return [(sum(w * p for w, p in zip(row, pixels)) + half) >> shift for row in sample.weights]


def _weights(
    bins: list[int], fractions: list[int], unit: int, term: Term
) -> list[tuple[tuple[int, ...], int]]:
    """Vertices with their weights; those without weight are left out."""
    axes = len(bins)
    if term.interpolation == "multilinear":
        corners = [
            (
                tuple(b + up for b, up in zip(bins, corner)),
                prod(f if up else unit - f for f, up in zip(fractions, corner)),
            )
            for corner in product((0, 1), repeat=axes)
        ]
        return [c for c in corners if c[1]]
    if term.compat == "srlut-2021":
        a, b, c, d = fractions
        if c >= a > b and c > d > a:
            ups = ((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1))
            weights = (unit - c, c - a, a - d, d - b, b)
            slip = [(tuple(k + up for k, up in zip(bins, corner)), w) for corner, w in zip(ups, weights)]
            return [s for s in slip if s[1]]
    order = sorted(range(axes), key=lambda k: -fractions[k])
    bounds = [unit, *(fractions[k] for k in order), 0]
    node = list(bins)
    found = [(tuple(node), bounds[0] - bounds[1])]
    for step, axis in enumerate(order):
        node[axis] += 1
        found.append((tuple(node), bounds[step + 1] - bounds[step + 2]))
    return [f for f in found if f[1]]


def _vertex(table: Table, part: str, nodes: int, node: tuple[int, ...], weight: int) -> Vertex:
    if part == "values" and table.banded:
        assert table.index is not None
        diameter = 2 * table.width + 1
        row = int(table.index[(node[0], *((n - node[0]) % diameter for n in node[1 : table.near + 1]))])
        rest = node[table.near + 1 :]
    else:
        row, rest = 0, node
    for n in rest:
        row = row * nodes + n
    array = table.values if part == "values" else table.coarse
    assert array is not None
    return Vertex(node, row, weight, tuple(int(v) for v in array[row]))
