"""Tables that learned luma of 16..235, made into tables for pictures of 0..255.

Test sets and published testers of deblocking work on luma in 16..235. Tables fitted there have never seen black or
white, and pull both towards grey. The same function in the other range is `f'(x) = (f(16 + x s) - 16) / s` with
`s = 219 / 255`, for every stage. On a grid that is the table read between its nodes, so nothing is fitted again and
nothing is added to a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.band import band_cells
from twinnet.lut.executors.recording import affine
from twinnet.lut.plan import Plan, Stage, Table

__all__ = ["full_range"]

_BLACK, _SHARE = 16, 219 / 255
Rows = Callable[[np.ndarray], np.ndarray]
"""From cells [n, axes] to their rows [n, payload], as floats."""


def full_range(plan: Plan) -> Plan:
    """A plan for 0..255 that does what `plan` does in 16..235."""
    tables = dict(plan.tables)
    for stage in plan.stages:
        lookups = sum(len(term.rotations) for term in stage.terms)
        for term in stage.terms:
            tables[term.table] = _widened(tables[term.table], _constant(stage, lookups))
    return Plan.build(plan.stages, tables)


def _constant(stage: Stage, lookups: int) -> float:
    """What every entry is raised by, in units of entries, after it was divided by the share."""
    divisor, offset = affine(stage.requant, stage.denominator)
    if divisor <= 0:
        raise UsageError(
            f"{stage.name} does not requantise by a whole number, so its range cannot be changed"
        )
    return divisor / stage.denominator / lookups * ((offset - _BLACK) / _SHARE - offset)


def _widened(table: Table, constant: float) -> Table:
    def made(cells: np.ndarray, step: int, rows: Rows, nodes: int) -> np.ndarray:
        at = (_BLACK + cells * step * _SHARE).clip(0, (nodes - 1) * step)
        entries = _between(rows, nodes, at / step) / _SHARE + constant
        return np.rint(entries).clip(-127, 127).astype(np.int8)

    if not table.banded:
        cells = _all_cells(table.nodes, table.axes)
        return replace(table, values=made(cells, table.step, _dense(table.values, table.nodes), table.nodes))
    assert table.coarse is not None
    if table.near != table.axes - 1:
        raise UsageError("the range of a band that leaves axes free cannot be changed")
    few, wide = table.coarse_nodes, table.step * table.thin
    band = band_cells(table.nodes, table.near, table.width)
    return replace(
        table,
        # A band stays a band: distances shrink.
        values=made(band, table.step, _banded(table), table.nodes),
        coarse=made(_all_cells(few, table.axes), wide, _dense(table.coarse, few), few),
    )


def _all_cells(nodes: int, axes: int) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(nodes**axes), (nodes,) * axes), axis=1)


def _dense(values: np.ndarray, nodes: int) -> Rows:
    def rows(cells: np.ndarray) -> np.ndarray:
        # A corner beyond the last node has no weight.
        return (
            values[np.ravel_multi_index(tuple(cells.T.clip(0, nodes - 1)), (nodes,) * cells.shape[1])] * 1.0
        )

    return rows


def _banded(table: Table) -> Rows:
    def rows(cells: np.ndarray) -> np.ndarray:
        assert table.index is not None
        inside = cells.clip(0, table.nodes - 1)
        away = (inside[:, 1:] - inside[:, :1]) % (2 * table.width + 1)
        # A corner outside the band has no weight, either.
        return table.values[table.index[(inside[:, 0], *away.T)].clip(0)] * 1.0

    return rows


def _between(rows: Rows, nodes: int, at: np.ndarray) -> np.ndarray:
    """Simplex interpolation, as the plan defines it, at points [n, axes] counted in nodes."""
    cells = np.minimum(at.astype(np.int64), nodes - 2)
    fractions = at - cells
    order = np.argsort(-fractions, axis=1, kind="stable")
    every = np.arange(len(at))
    total = np.zeros(())
    before = np.ones(len(at))
    for axis in order.T:
        here = fractions[every, axis]
        total = total + (before - here)[:, None] * rows(cells)
        cells[every, axis] += 1
        before = here
    return total + before[:, None] * rows(cells)
