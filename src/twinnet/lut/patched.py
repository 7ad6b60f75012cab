"""A run of a plan carried on from other values at some of its sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.exact import Expected
from twinnet.lut.plan import Plan, Stage, sites

__all__ = ["carried", "refuse_views"]

_VIEWS = (".input.x", ".input.prev_x")


def refuse_views(names: Iterable[str]) -> None:
    """What a group reads is a view of what earlier stages wrote: to change it, change those."""
    for name in names:
        if name.endswith(_VIEWS):
            raise UsageError(
                f"{name} only shows what the group reads", hint="patch the stage that writes it instead"
            )


def carried(
    plan: Plan, image: np.ndarray, recorded: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The integers of every site when those of `given` hold other values than a run `recorded` for this plane.

    Sites that do not depend on them stay as recorded; the others are recomputed by the meaning of the plan.

    >>> from twinnet.lut import export, lower
    >>> from twinnet.lut.executors import make
    >>> from twinnet.restore.nets import mulut
    >>> plan = lower(export(mulut.build("s", stages=2, scale=2, width=4)))
    >>> seen, plane = {}, np.full((3, 4), 90, np.uint8)
    >>> _ = make(plan, "numpy").record(plane, lambda name, values: seen.update({name: np.array(values)}))
    >>> other = carried(plan, plane, seen, {"stage1": np.full((1, 3, 4), 7)})
    >>> int(other["stage2.in_c0.input.x"].max()), np.array_equal(other["stage1.in_c0"], seen["stage1.in_c0"])
    (7, True)
    """
    refuse_views(given)
    expected = Expected(plan)
    stages = {stage.name: stage for stage in plan.stages}
    values = dict(recorded)
    for name, array in given.items():
        if name not in values:
            raise UsageError(f"the tables have no site {name!r}")
        if array.shape != values[name].shape:
            raise UsageError(f"{name} holds {list(values[name].shape)} per plane, not {list(array.shape)}")
        values[name] = array
    changed = set(given)
    for site in sites(plan):
        name = site.name
        if name in given:
            continue
        sources = _groups(stages[name]) if site.kind == "stage" else expected.sources(name)
        if not changed.intersection(sources):
            continue
        if site.kind == "stage" and all(stages[name].groups):
            # From its groups, one of which may be what was given.
            total = sum(values[group] for group in sources)
            values[name] = stages[name].requant(np.asarray(total), stages[name].denominator).astype(np.int64)
        else:
            values[name] = expected.at(name, image, values.__getitem__).value
        changed.add(name)
    return values


def _groups(stage: Stage) -> tuple[str, ...]:
    """The sites a stage is computed from: its groups, or its rotations where they are in no group."""
    if all(stage.groups):
        return tuple(f"{stage.name}.{group}" for group in stage.groups)
    return tuple(f"{stage.name}.{term.name}.rot{r}" for term in stage.terms for r in term.rotations)
