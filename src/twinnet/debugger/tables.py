"""Where the twin is a plan of tables: its plan, the network's own, and the parts of a site's name."""

from __future__ import annotations

import re

from twinnet.debugger.stopped import Stopped
from twinnet.lut.plan import Plan, Stage, Term

__all__ = ["plans_of", "stage_at", "term_at"]

_ROTATION = re.compile(r"\.rot(\d)(?:\.sr)?$")


def plans_of(stopped: Stopped) -> tuple[Plan, Plan] | None:
    """The plan that the network gives and the one the twin runs; None where the twin has no tables."""
    if stopped.held is None:
        return None
    from twinnet.engines.lut import NetworkSites, TableSession, exported_plan

    net, twin = stopped.held.sides.net, stopped.held.sides.twin
    if not isinstance(twin, TableSession):
        return None
    if isinstance(net, TableSession):
        return net.plan, twin.plan
    if not isinstance(net, NetworkSites):
        return twin.plan, twin.plan
    known = stopped.held.__dict__.get("exported")
    if known is None:
        known = exported_plan(net.net, stopped.held.job)
        stopped.held.__dict__["exported"] = known
    return known, twin.plan


def stage_at(plan: Plan, site: str) -> Stage:
    """The stage a site belongs to."""
    return max((s for s in plan.stages if f"{site}.".startswith(f"{s.name}.")), key=lambda s: len(s.name))


def term_at(plan: Plan, site: str) -> tuple[Stage, Term, int] | None:
    """Stage, term and rotation of a Unit's site; None for sums, inputs and stages."""
    turned = _ROTATION.search(site)
    if turned is None:
        return None
    stage = stage_at(plan, site)
    name = site[len(stage.name) + 1 : turned.start()]
    for term in stage.terms:
        if term.name == name:
            return stage, term, int(turned[1])
    return None
