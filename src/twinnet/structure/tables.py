"""Two table networks side by side: the words of a check, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twinnet.errors import UsageError
from twinnet.lut.plan import Plan
from twinnet.structure.change import Change, StructureDiff

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["compare_tables", "plans_of"]


def plans_of(a: Network, b: Network) -> tuple[Plan, Plan] | None:
    """The plans of two table networks; None if neither is a file of tables.

    A LUT network beside a file is tabulated; anything else beside one is refused.
    """
    plans = [getattr(side, "plan", None) for side in (a, b)]
    if not any(isinstance(plan, Plan) for plan in plans):
        return None
    found = [
        plan if isinstance(plan, Plan) else _tabulated(side) for side, plan in zip((a, b), plans, strict=True)
    ]
    return found[0], found[1]


def _tabulated(side: Any) -> Plan:
    from twinnet.engines.lut import exported_plan, lut_net
    from twinnet.job import Job

    net = lut_net(side)
    if net is None:
        raise UsageError(
            f"{side.name} is no table network, and the other side is a file of tables",
            hint="tables are compared with tables, or with the LUT network they were made from",
        )
    return exported_plan(net, Job(inputs={}))


def compare_tables(names: tuple[str, str], plans: tuple[Plan, Plan]) -> StructureDiff:
    """What differs between two plans; a lookup is what elsewhere is a layer."""
    from twinnet.lut.differences import of_plans

    changes = []
    for place, aspect in of_plans(*plans):
        said = f"{place}: B {aspect.told('A')}" if place else f"B {aspect.told('A')}"
        kind: Any = "weight" if aspect.what in ("entry", "node") else "attribute"
        changes.append(Change(kind, place, said, aspect.first, aspect.second))
    lookups = [{f"{s.name}.{t.name}" for s in plan.stages for t in s.terms} for plan in plans]
    entries = [sum(t.nbytes for t in plan.tables.values()) for plan in plans]
    return StructureDiff(
        *names,
        len(lookups[0]),
        len(lookups[1]),
        len(lookups[0] & lookups[1]),
        *entries,
        changes=tuple(changes),
    )
