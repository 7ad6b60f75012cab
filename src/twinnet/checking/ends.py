"""Both sides end to end, with nothing watched."""

from __future__ import annotations

import contextlib

import numpy as np

from twinnet.checking.planning import Opened
from twinnet.errors import EngineError
from twinnet.job import Arrays
from twinnet.judge.deployed import Ends
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen

__all__ = ["all_finite", "both_ends", "ends_of"]


def ends_of(plan: Plan, opened: Opened, seen: Seen, theirs: Arrays | None = None) -> Ends:
    """One sample end to end. The first ran as deployed to make the plan; of the others the network's are as watched."""
    tensors = zip(opened.plain, plan.net.output_tensors, strict=False)
    watched = {row.twin_name: np.array(seen.twin_trace[row.twin_tensor]) for row in plan.outputs}
    if seen.number == 0:
        return Ends(0, seen.sample, opened.plain, opened.twin_plain, watched, plan.observed.watched)
    ours = {n: np.array(seen.trace[t]) for n, t in tensors if t in seen.trace}
    if theirs is None:
        theirs = plan.twin.run(seen.sample) if plan.twin.live else watched
    return Ends(seen.number, seen.sample, ours, theirs, watched)


def both_ends(plan: Plan, sample: Arrays) -> Ends | None:
    """Both sides with nothing watched; None where the network cannot run the sample, nothing of a twin that cannot."""
    try:
        ours = plan.net.run(sample)
    except EngineError:
        return None
    theirs: Arrays = {}
    if plan.twin.live:
        with contextlib.suppress(EngineError):
            theirs = plan.twin.run(sample)
    return Ends(1, sample, ours, theirs)


def all_finite(arrays: Arrays) -> bool:
    """Whether no float is NaN or infinite."""
    return all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind in "fc")
