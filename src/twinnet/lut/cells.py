"""Comparing two table networks: which cells differ, by how much, and how often real images visit them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from twinnet.lut.plan import Plan, Table
from twinnet.lut.reference import Visits, run_reference
from twinnet.result import Fact, fact

__all__ = ["Cell", "Difference", "TableDifference", "diff", "lines", "nodes_of", "to_dict"]


@dataclass(frozen=True)
class Cell:
    """One row that differs: its node on every axis (pixel values), the two rows' largest difference, its
    visits."""

    node: tuple[int, ...]
    largest: int
    visits: int | None


@dataclass(frozen=True)
class TableDifference:
    """How one table differs."""

    table: str
    rows: int
    differing_rows: int
    differing_entries: int
    entries: int
    largest: int
    mean: float
    """Mean absolute difference over all entries."""
    visited: float | None
    """Share of all weighted reads of this table that meet a differing row; None without images."""
    worst: tuple[Cell, ...]
    """The rows that matter most: the most visited with images, else those with the largest difference."""


@dataclass(frozen=True)
class Difference:
    """How two networks differ: in structure, and in their tables."""

    structure: tuple[Fact, ...]
    tables: tuple[TableDifference, ...] = field(default=())

    @property
    def same(self) -> bool:
        """Whether both compute the same thing everywhere."""
        return not self.structure and not any(t.differing_rows for t in self.tables)


def diff(a: Plan, b: Plan, images: Iterable[np.ndarray] = (), most: int = 10) -> Difference:
    """Compare two plans; `images` are uint8 [rows, columns] or [rows, columns, colours] and are run
    through `a`.

    >>> from twinnet.lut import export, lower
    >>> from twinnet.restore.nets import srlut
    >>> plan = lower(export(srlut.build("V", scale=2, width=4)))
    >>> diff(plan, plan).same
    True
    """
    structure = _structure(a, b)
    visits: Visits | None = None
    for image in images:
        visits = {} if visits is None else visits
        for plane in image[None] if image.ndim == 2 else np.moveaxis(image, -1, 0):
            run_reference(a, np.ascontiguousarray(plane), visits=visits)
    found = []
    for name in a.tables:
        if name not in b.tables:
            continue
        for part, suffix in (("values", ""), ("coarse", ".coarse")):
            x, y = getattr(a.tables[name], part), getattr(b.tables[name], part)
            if x is None or y is None or x.shape != y.shape or _grid(a.tables[name]) != _grid(b.tables[name]):
                continue
            seen = None if visits is None else visits.get(name + suffix, np.zeros(len(x), np.int64))
            found.append(_compare(name + suffix, a.tables[name], x, y, seen, most))
    return Difference(structure, tuple(found))


def _grid(table: Table) -> tuple[int, ...]:
    return table.axes, table.nodes, table.step, table.near, table.width, table.thin


def _structure(a: Plan, b: Plan) -> tuple[Fact, ...]:
    from twinnet.lut.differences import of_plans

    found = [fact("table.scale", network=a.scale, twin=b.scale)] if a.scale != b.scale else []
    for place, aspect in of_plans(a, b):
        if aspect.what != "entry":  # entries are counted table by table
            found.append(fact("table.between", place=place, difference=aspect.fact))
    return tuple(found)


def nodes_of(table: Table, rows: np.ndarray, coarse: bool = False) -> np.ndarray:
    """Pixel values of the nodes of rows: [rows, axes]."""
    if coarse:
        index = np.unravel_index(rows, (table.coarse_nodes,) * table.axes)
        return np.stack(index, axis=1) * table.step * table.thin
    if not table.banded:
        return np.stack(np.unravel_index(rows, (table.nodes,) * table.axes), axis=1) * table.step
    from twinnet.lut.band import band_cells

    rest = (table.nodes,) * (table.axes - 1 - table.near)
    cell, tail = np.divmod(rows, int(np.prod(rest, dtype=np.int64)))
    near = band_cells(table.nodes, table.near, table.width)[cell]
    far = np.stack(np.unravel_index(tail, rest), axis=1) if rest else np.zeros((len(rows), 0), np.int64)
    return np.concatenate([near, far], axis=1) * table.step


def _compare(
    name: str, table: Table, x: np.ndarray, y: np.ndarray, seen: np.ndarray | None, most: int
) -> TableDifference:
    gap = np.abs(x.astype(np.int16) - y.astype(np.int16))
    per_row = gap.max(axis=1)
    rows = np.flatnonzero(per_row)
    rank = np.lexsort((-per_row[rows],) if seen is None else (-per_row[rows], -seen[rows]))
    top = rows[rank[:most]]
    cells = tuple(
        Cell(tuple(int(v) for v in node), int(per_row[row]), None if seen is None else int(seen[row]))
        for row, node in zip(top, nodes_of(table, top, name.endswith(".coarse")))
    )
    visited = None if seen is None else (float(seen[rows].sum() / seen.sum()) if seen.sum() else 0.0)
    return TableDifference(
        name, len(x), len(rows), int(np.count_nonzero(gap)), gap.size, int(gap.max(initial=0)),
        float(gap.mean()), visited, cells,
    )  # fmt: skip


def to_dict(found: Difference) -> dict[str, Any]:
    """As plain data."""
    tables = [asdict(table) for table in found.tables]
    return {"same": found.same, "structure": [str(said) for said in found.structure], "tables": tables}


def lines(found: Difference) -> list[str]:
    """For people: structure first, then every table, then its cells."""
    if found.same:
        return ["the same network: structure and all entries are equal"]
    out = [f"structure {said}" for said in found.structure]
    for table in found.tables:
        if not table.differing_rows:
            out.append(f"{table.table}  equal ({table.rows:,} rows)")
            continue
        visited = "" if table.visited is None else f"; {table.visited:.2%} of reads by these images meet one"
        out.append(
            f"{table.table}  {table.differing_rows:,} of {table.rows:,} rows differ "
            f"({table.differing_entries:,} of {table.entries:,} entries), by {table.largest} at most, "
            f"{table.mean:.3g} on average{visited}"
        )
        for cell in table.worst:
            often = "" if cell.visits is None else f", read {cell.visits:,} times"
            out.append(f"  at {' '.join(map(str, cell.node))}: differs by {cell.largest}{often}")
    return out
