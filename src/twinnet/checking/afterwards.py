"""What is looked at once everything agreed: numbers in the files, other sizes, whether there were two sides at all."""

from __future__ import annotations

from twinnet.checking.case import Case
from twinnet.checking.ends import all_finite, both_ends
from twinnet.checking.open_sizes import always_one_size, two_at_once
from twinnet.checking.planning import Opened
from twinnet.checking.still import Still
from twinnet.engines import find_engine
from twinnet.engines.recording import RecordedSession
from twinnet.judge.deployed import Ends, judge_ends
from twinnet.judge.files import files_differ
from twinnet.judge.plan import Plan
from twinnet.result import Guard, fact

__all__ = ["afterwards"]


def afterwards(case: Case, opened: Opened, plan: Plan, still: Still, moved: Ends | None) -> list[Guard]:
    """Guards of a check that passes. `moved` are both sides on another input, if that was run."""
    found = _one_recording(plan)
    if plan.by_network:
        return found
    own = plan.twin.live and not opened.derived and not plan.tolerances
    if own and not plan.units.narrow:
        found += files_differ(plan.graph, plan.twin.graph())
    specs, sizes = case.network.signature.inputs, list(still.shapes)
    if not any(spec.dynamic and spec.shape for spec in specs):
        return found
    batch = two_at_once(specs, case.first, {} if moved is None else moved.sample)
    if own and batch is not None and find_engine(plan.twin.engine).abilities.segment != "compile":
        ends = both_ends(plan, batch)
        if ends is not None and ends.theirs and all_finite(ends.ours):
            sizes.append({name: array.shape for name, array in batch.items()})
            found += _as_batch(plan, ends)
    return found + (always_one_size(specs, sizes) if own else [])


def _as_batch(plan: Plan, ends: Ends) -> list[Guard]:
    wrong = [seen for seen in judge_ends(plan, ends) if seen.form or seen.wrong]
    return [
        Guard(
            "coverage", fact("sizes.batch", output=seen.row.name, error=seen.difference.max_abs), weakens=True
        )
        for seen in wrong[:1]
    ]


def _one_recording(plan: Plan) -> list[Guard]:
    sides = [s.recording.folder.resolve() for s in (plan.net, plan.twin) if isinstance(s, RecordedSession)]
    if len(sides) == 2 and sides[0] == sides[1]:
        return [Guard("structure", fact("recordings.same"), weakens=True)]
    return []
