"""One lookup of a plan, step by step: taps, values, bins, fractions, vertices, weights, result.

The arithmetic is that of `twinnet.lut.variants`, at a single site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from twinnet.lut import variants
from twinnet.lut.cells import nodes_of
from twinnet.lut.plan import Plan, Plane, Sample, Stage, Term, turn
from twinnet.lut.reference import outside

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
    at: tuple[int, int],
) -> Lookup:
    """What a term computes at one site (row, column) of its stage.

    `registers` are the planes it may read, [channels, rows, columns].

    >>> from twinnet.demo.upscaler import build
    >>> from twinnet.lut import export, lower
    >>> plan = lower(export(build()[0]))
    >>> stage = plan.stages[0]
    >>> plane = np.arange(12).reshape(1, 3, 4) * 20
    >>> found = explain_lookup(plan, stage, stage.terms[0], 0, {"input": plane}, (1, 2))
    >>> [tap.value for tap in found.taps], found.bins, found.fractions
    ([120, 140, 200, 220], (7, 8, 12, 13), (8, 12, 8, 12))
    >>> [vertex.weight for vertex in found.vertices], found.denominator
    ([4, 4, 8], 16)
    """
    table, sample = plan.tables[term.table], term.sample
    given = {name: register[None].astype(np.int64) for name, register in registers.items()}
    step = variants.Lookup(term, table, stage.cell, rotation)
    step = replace(step, sites=np.array([at[0] * step.shape(given)[2] + at[1]]))
    values = step.values(given)
    # Of a banded table's two walks, one is empty: a site is either in the band or off it.
    walk = next(walk for walk in step.walks(values) if walk.rows.shape[1])
    thin = table.thin if walk.coarse else 1
    unit, nodes = term.units(table) * thin, table.coarse_nodes if walk.coarse else table.nodes
    bins, fractions = step.bins(values, unit, nodes)
    array = table.coarse if walk.coarse else table.values
    assert array is not None
    used = np.flatnonzero(walk.weights[:, 0])
    rows = walk.rows[used, 0]
    weights = walk.weights[used, 0] * (table.thin // thin)
    vertices = tuple(
        Vertex(_whole(node), int(row), int(weight), _whole(array[row]))
        for node, row, weight in zip(
            nodes_of(table, rows, walk.coarse) // (table.step * thin), rows, weights, strict=True
        )
    )
    return Lookup(
        term.table,
        "coarse" if walk.coarse else "values",
        _taps(sample, sample.planes, stage.cell, registers, rotation, at),
        () if term.blend is None else _taps(sample, term.blend.planes, stage.cell, registers, rotation, at),
        _whole(values),
        sample.value_bits,
        unit,
        _whole(bins),
        _whole(fractions),
        vertices,
        _whole(weights @ array[rows].astype(np.int64)),
        term.denominator(table),
    )


def _whole(values: np.ndarray) -> tuple[int, ...]:
    return tuple(int(value) for value in values.reshape(-1))


def _taps(
    sample: Sample,
    planes: tuple[Plane, ...],
    cell: int,
    registers: Mapping[str, np.ndarray],
    rotation: int,
    at: tuple[int, int],
) -> tuple[Tap, ...]:
    found = []
    for p, offset in enumerate(sample.offsets):
        plane = sample.plane(p, planes)
        image = registers[plane.register][plane.channel]
        wanted = tuple(cell * k + d for k, d in zip(at, turn(offset, rotation, cell)))
        y, x = (int(outside(np.array(k), n, sample.padding)) for k, n in zip(wanted, image.shape))
        found.append(Tap(plane.register, plane.channel, y, x, int(image[y, x]), (y, x) != wanted))
    return tuple(found)
