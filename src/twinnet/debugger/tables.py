"""Where the twin is a plan of tables: its plan, the network's own, and the parts of a site's name."""

from __future__ import annotations

import re

from twinnet.debugger.stopped import Stopped
from twinnet.lut.plan import Plan, Stage, Term

__all__ = ["plans_of", "stage_at", "term_at"]

_ROTATION = re.compile(r"\.rot(\d)(?:\.sr)?$")


def plans_of(stopped: Stopped) -> tuple[Plan, Plan] | None:
    """The plan that the network gives and the one the twin runs; None where the network has no tables.

    A twin that runs tables elsewhere shows no plan: it is looked at with the network's own.
    """
    if stopped.held is None:
        return None
    from twinnet.engines.lut import NetworkSites, TableSession, judged_plan

    net, twin = stopped.held.sessions["network"], stopped.held.sessions["twin"]
    if not isinstance(net, TableSession | NetworkSites):
        return None
    if not isinstance(twin, TableSession):
        return net.plan, net.plan
    if stopped.held.plans is None:
        # Compressed tables are looked at beside the network's own in the same form, which takes a while to make.
        own = net.plan if net.net is None else judged_plan(net.net, net.plan, twin)
        stopped.held.plans = (own, twin.plan)
    return stopped.held.plans


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
