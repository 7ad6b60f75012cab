"""Two table networks side by side: the words of a check, without running anything."""

from __future__ import annotations

from twinnet.errors import UsageError
from twinnet.job import Job
from twinnet.lut.differences import of_plans
from twinnet.lut.plan import Plan
from twinnet.network import Network
from twinnet.result import fact
from twinnet.structure.change import Change, Kind, StructureDiff
from twinnet.tables.network import TableNetwork
from twinnet.tables.plans import exported_plan, lut_net

__all__ = ["compare_tables"]


def _plan(side: Network) -> Plan:
    if isinstance(side, TableNetwork):
        return side.plan
    net = lut_net(side)
    if net is None:
        raise UsageError(
            f"{side.name} is not a table network, and the other side is a file of tables",
            hint="tables are compared with tables, or with the LUT network they were made from",
        )
    return exported_plan(net, Job(inputs={}))


def compare_tables(a: Network, b: Network) -> StructureDiff:
    """What differs between the plans of two networks; a lookup is what elsewhere is a layer."""
    plans = _plan(a), _plan(b)
    changes = []
    for place, aspect in of_plans(*plans):
        said = fact("table.between", place=place, difference=aspect.fact)
        kind: Kind = "weight" if aspect.what in ("entry", "node") else "attribute"
        changes.append(Change(kind, place, said, aspect.fact.network_value, aspect.fact.twin_value))
    lookups = [{f"{s.name}.{t.name}" for s in plan.stages for t in s.terms} for plan in plans]
    entries = [sum(t.nbytes for t in plan.tables.values()) for plan in plans]
    return StructureDiff(
        a.name,
        b.name,
        len(lookups[0]),
        len(lookups[1]),
        len(lookups[0] & lookups[1]),
        *entries,
        changes=tuple(changes),
    )
