"""Tables of a network on the grids and in the compression of given tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.lut.plan import Plan, Table

if TYPE_CHECKING:
    from twinnet.lut.net import LutNet

__all__ = ["plan_like"]


def _form(table: Table) -> tuple[int, ...]:
    return table.axes, table.payload, table.nodes, table.step, table.near, table.width, table.thin


def plan_like(net: LutNet, own: Plan, given: Plan) -> Plan:
    """`own`, the plan of `net`, with its tables on the grids and in the compression of `given`.

    The last node stays the network's own: tables that were evaluated elsewhere are a difference to be found. Tables
    whose names differ are left as they are.
    """
    from twinnet.lut.dfc import AXES, compress_table
    from twinnet.lut.exporter import tabulate, units
    from twinnet.lut.grid import Grid

    bodies = {path.removesuffix(".unit"): unit for path, unit in units(net)}
    tables = dict(own.tables)
    for name, theirs in given.tables.items():
        ours = tables.get(name)
        if ours is None or name not in bodies or _form(ours) == _form(theirs):
            continue
        unit = bodies[name]
        if (ours.nodes, ours.step) != (theirs.nodes, theirs.step) and unit.body is not None:
            last = 255 if ours.last == 255 else (theirs.nodes - 1) * theirs.step
            ours = tabulate(unit, Grid(theirs.step, theirs.nodes, last))
        if theirs.banded and not ours.banded and ours.nodes == theirs.nodes:
            axes = next(word for word, near in AXES.items() if near == theirs.near)
            ours = compress_table(ours, axes, theirs.width, thin=theirs.thin)
        tables[name] = ours
    return Plan.build(own.stages, tables)
