"""A small slow interpreter of plans in plain numpy: the meaning of `twinnet.lut.plan`, executable.

It follows that text sentence by sentence. It is meant to be read and to be compared against, not to be fast.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.plan import INPUT, Blend, Plan, Plane, Sample, Stage, Table, Term, turn

__all__ = [
    "Record",
    "Visits",
    "group_inputs",
    "lookup_term",
    "outside",
    "place_block",
    "run_reference",
    "run_stage",
]

Record = Callable[[str, np.ndarray], None]
"""Called with a site's name and its integers, in the order of `twinnet.lut.plan.sites`."""

Registers = dict[str, np.ndarray]


Visits = dict[str, np.ndarray]
"""How often each row of each table carried weight, under the names of the tables' arrays."""


def run_reference(
    plan: Plan, image: np.ndarray, record: Record | None = None, visits: Visits | None = None
) -> np.ndarray:
    """Run `plan` on one plane of uint8 [rows, columns]; returns uint8 [channels, rows * scale, columns *
    scale].

    `visits` is filled in if given: `{table: counts per row}`, with `{table}.coarse` for the off-band rows.

    >>> from twinnet.lut.plan import Requant
    >>> table = Table(np.arange(-127, 129, 16, dtype=np.int16).clip(-127, 127).astype(np.int8)[:, None],
    ...               axes=1, nodes=16, step=17)
    >>> term = Term(Sample((Plane(INPUT),), ((0, 0),)), "t", rotations=(0,))
    >>> stage = Stage("stage1", (term,), Requant("q", (("add", 127), ("clip", 0, 255), ("round",))))
    >>> plan = Plan.build([stage], {"t": table})
    >>> run_reference(plan, np.array([[0, 17, 255]], np.uint8)).tolist()
    [[[0, 16, 240]]]
    """
    if image.ndim != 2 or image.dtype != np.uint8:
        raise UsageError(f"a plan runs on one uint8 plane, not {image.dtype}{list(image.shape)}")
    if image.size == 0:
        raise UsageError(f"the image is empty: {image.shape[0]} x {image.shape[1]} pixels")
    note: Record = record if record is not None else lambda name, array: None
    registers: Registers = {INPUT: image[None].astype(np.int64)}
    for stage in plan.stages:
        registers[stage.name] = _stage(plan, stage, registers, note, visits)
    return registers[plan.stages[-1].name].astype(np.uint8)


def run_stage(plan: Plan, stage: Stage, registers: Registers, record: Record) -> np.ndarray:
    """One stage of `plan` on what earlier ones wrote; returns its register, uint8 [channels, rows, columns]."""
    wide = {name: register.astype(np.int64) for name, register in registers.items()}
    return _stage(plan, stage, wide, record, None).astype(np.uint8)


def lookup_term(term: Term, table: Table, cell: int, registers: Registers, rotation: int) -> np.ndarray:
    """Numerators of one term in one rotation: [payload, site rows, site columns]."""
    return _lookup(term, table, _values(term, cell, registers, rotation), None)


def _stage(plan: Plan, stage: Stage, registers: Registers, note: Record, visits: Visits | None) -> np.ndarray:
    total: np.ndarray | int = 0
    for group in stage.groups:
        terms, prefix = group_inputs(stage, group, registers, note)
        part: np.ndarray | int = 0
        for term in terms:
            table = plan.tables[term.table]
            factor = stage.denominator // term.denominator(table)
            for r in term.rotations:
                numerator = _lookup(term, table, _values(term, stage.cell, registers, r), visits)
                note(f"{stage.name}.{term.name}.rot{r}.sr", numerator)
                placed = place_block(numerator, stage, r)
                note(f"{stage.name}.{term.name}.rot{r}", placed)
                part = part + factor * placed
        if group:
            note(prefix, np.asarray(part))
        total = total + part
    out = stage.requant(np.asarray(total), stage.denominator).astype(np.int64)
    note(stage.name, out)
    return out


def group_inputs(stage: Stage, group: str, registers: Registers, note: Record) -> tuple[list[Term], str]:
    """The terms of a group and what its sites begin with, after the pixels that it reads were noted."""
    terms = [term for term in stage.terms if term.group == group]
    prefix = f"{stage.name}.{group}" if group else stage.name
    note(f"{prefix}.input.x", _stack(terms[0].sample.planes, registers))
    blended = [term.blend for term in terms if term.blend is not None]
    if blended:
        note(f"{prefix}.input.prev_x", _stack(blended[0].planes, registers))
    return terms, prefix


def _stack(planes: tuple[Plane, ...], registers: Registers) -> np.ndarray:
    return np.stack([registers[p.register][p.channel] for p in dict.fromkeys(planes)])


def outside(coordinate: np.ndarray, n: int, padding: str) -> np.ndarray:
    """Coordinates along an axis of `n` pixels, mapped back inside."""
    if padding == "edge":
        return np.clip(coordinate, 0, n - 1)
    if n == 1:
        return np.zeros_like(coordinate)
    folded = np.mod(coordinate, 2 * (n - 1))
    return np.where(folded < n, folded, 2 * (n - 1) - folded)


def _pixels(sample: Sample, planes: tuple[Plane, ...], cell: int, registers: Registers, r: int) -> np.ndarray:
    """Pixels of all offsets at all sites: [offset, site row, site column]."""
    pixels = []
    for p, offset in enumerate(sample.offsets):
        plane = sample.plane(p, planes)
        image = registers[plane.register][plane.channel]
        dy, dx = turn(offset, r, cell)
        rows = outside(np.arange(0, image.shape[0], cell) + dy, image.shape[0], sample.padding)
        columns = outside(np.arange(0, image.shape[1], cell) + dx, image.shape[1], sample.padding)
        pixels.append(image[rows[:, None], columns[None, :]])
    return np.stack(pixels)


def _fixed_point(sample: Sample, pixels: np.ndarray) -> np.ndarray:
    if sample.weights is None:
        return pixels << sample.value_bits
    shift = sample.weight_bits - sample.value_bits
    half = 1 << (shift - 1) if shift else 0
    return (np.tensordot(np.array(sample.weights, np.int64), pixels, axes=1) + half) >> shift


def _values(term: Term, cell: int, registers: Registers, r: int) -> np.ndarray:
    """Fixed-point values of the table's axes: [axis, site row, site column]."""
    sample = term.sample
    values = _fixed_point(sample, _pixels(sample, sample.planes, cell, registers, r))
    blend: Blend | None = term.blend
    if blend is None:
        return values
    other = _fixed_point(sample, _pixels(sample, blend.planes, cell, registers, r))
    gain = np.array(blend.gains, np.int64)[:, None, None]
    one = 1 << blend.gain_bits
    return (gain * other + (one - gain) * values + one // 2) >> blend.gain_bits


Rows = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Rows of a table at vertices [axis, site]; where the second argument is False the row has no weight."""


def _interpolate(
    values: np.ndarray, u: int, nodes: int, rows: Rows, interpolation: str, compat: str
) -> np.ndarray:
    """Numerators [site, payload] for values [axis, site]."""
    bins = np.minimum(values // u, nodes - 2)
    frac = values - bins * u
    axes = len(values)
    if interpolation == "multilinear":
        total: np.ndarray | int = 0
        for corner in product((0, 1), repeat=axes):
            up = np.array(corner)[:, None]
            weight = np.prod(np.where(up == 1, frac, u - frac), axis=0)
            total = total + weight[:, None] * rows(bins + up, weight != 0)
        return np.asarray(total)
    order = np.argsort(-frac, axis=0, kind="stable")
    falling = np.take_along_axis(frac, order, axis=0)
    bounds = np.concatenate([np.full_like(frac[:1], u), falling, np.zeros_like(frac[:1])])
    weights = bounds[:-1] - bounds[1:]
    up = np.zeros_like(bins)
    total = weights[0][:, None] * rows(bins, weights[0] != 0)
    for i in range(axes):
        np.put_along_axis(up, order[i : i + 1], 1, axis=0)
        total = total + weights[i + 1][:, None] * rows(bins + up, weights[i + 1] != 0)
    if compat == "srlut-2021":
        a, b, c, d = frac
        slip = (c >= a) & (a > b) & (c > d) & (d > a)
        corners = ((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1))
        wrong: np.ndarray | int = 0
        for corner, weight in zip(corners, (u - c, c - a, a - d, d - b, b)):
            wrong = wrong + weight[:, None] * rows(bins + np.array(corner)[:, None], slip)
        total = np.where(slip[:, None], wrong, total)
    return np.asarray(total)


def _dense_rows(table: np.ndarray, nodes: int, axes: int, seen: np.ndarray | None) -> Rows:
    wide = table.astype(np.int64)

    def rows(vertex: np.ndarray, used: np.ndarray) -> np.ndarray:
        flat = np.zeros(vertex.shape[1], np.int64)
        for k in range(axes):
            flat = flat * nodes + vertex[k]
        _count(seen, flat[used])
        return wide[flat]

    return rows


def _count(seen: np.ndarray | None, rows: np.ndarray) -> None:
    if seen is not None:
        seen += np.bincount(rows, minlength=len(seen))


def _band_rows(table: Table, seen: np.ndarray | None) -> Rows:
    assert table.index is not None
    wide = table.values.astype(np.int64)
    index = table.index.astype(np.int64)
    diameter = 2 * table.width + 1

    def rows(vertex: np.ndarray, used: np.ndarray) -> np.ndarray:
        away = vertex[1 : table.near + 1] - vertex[0]
        inside = used & (np.abs(away) <= table.width).all(axis=0)
        assert (inside == used).all(), "a vertex with weight lies outside the band"
        flat = index[(vertex[0], *(away % diameter))]
        for k in range(table.near + 1, table.axes):
            flat = flat * table.nodes + vertex[k]
        _count(seen, flat[inside])
        return wide[np.where(inside, flat, 0)]

    return rows


def _lookup(term: Term, table: Table, values: np.ndarray, visits: Visits | None) -> np.ndarray:
    """Numerators over `term.denominator(table)`: [payload, site row, site column]."""
    shape = values.shape[1:]
    flat = values.reshape(len(values), -1)
    u = term.units(table)
    seen = None if visits is None else visits.setdefault(term.table, np.zeros(len(table.values), np.int64))
    if not table.banded:
        rows = _dense_rows(table.values, table.nodes, table.axes, seen)
        out = _interpolate(flat, u, table.nodes, rows, term.interpolation, term.compat)
    else:
        assert table.coarse is not None
        in_band = (np.abs(flat[1 : table.near + 1] - flat[0]) <= table.width * u).all(axis=0)
        out = np.empty((flat.shape[1], table.payload), np.int64)
        fine = _interpolate(flat[:, in_band], u, table.nodes, _band_rows(table, seen), term.interpolation, "")
        out[in_band] = fine * table.thin
        if visits is not None:
            seen = visits.setdefault(f"{term.table}.coarse", np.zeros(len(table.coarse), np.int64))
        coarse = _dense_rows(table.coarse, table.coarse_nodes, table.axes, seen)
        out[~in_band] = _interpolate(
            flat[:, ~in_band], u * table.thin, table.coarse_nodes, coarse, term.interpolation, ""
        )
    return np.ascontiguousarray(out.T).reshape(-1, *shape)


def place_block(numerator: np.ndarray, stage: Stage, r: int) -> np.ndarray:
    """Pixel shuffle with the block turned back: [channel, row, column] of the register."""
    n = stage.upscale
    rows, columns = numerator.shape[1:]
    blocks = numerator.reshape(stage.channels, n, n, rows, columns)
    # rot90 by -r of the (u, v) axes puts element (u, v) of rotation r where the plan wants it.
    turned = np.rot90(blocks, -r, axes=(1, 2)) if n > 1 else blocks
    return turned.transpose(0, 3, 1, 4, 2).reshape(stage.channels, rows * n, columns * n)
