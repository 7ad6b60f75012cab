"""Judging sample by sample, and what is gathered on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from twinnet.blame.collect import Blamed, Blamer
from twinnet.checking.case import Case
from twinnet.checking.ends import all_finite, both_ends, ends_of
from twinnet.checking.kept import Kept
from twinnet.checking.planning import Opened, Traces, trace_both
from twinnet.checking.reach import Reached, further_samples, odd_samples
from twinnet.checking.sides import Sides
from twinnet.checking.still import Still
from twinnet.inputs.samples import Joined
from twinnet.job import Arrays
from twinnet.judge.again import known_tensors, restated
from twinnet.judge.aggregate import merge, verdict_of
from twinnet.judge.conclusion import Outcome
from twinnet.judge.deployed import Ends, OutputSeen, judge_ends, worse
from twinnet.judge.inputs import OtherInput, input_cause, inputs_differ
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen, judge_sample
from twinnet.judge.task import task_metric
from twinnet.result import PairResult, TaskMetric
from twinnet.shrink.collect import Seeds, Source

if TYPE_CHECKING:
    from twinnet.blame.advise import Adviser
    from twinnet.blame.context import Context

__all__ = ["Judging", "Listener", "run_sample", "source_of"]


class Listener(Protocol):
    """Sees each judged sample before its tensors are freed."""

    def judged(self, plan: Plan, seen: Seen, pairs: Sequence[PairResult], blamed: Blamed) -> bool:
        """Look at a sample; return True to take over its traces, and close them yourself."""
        ...


class Judging:
    """Samples one after the other: the worst of every pair and output so far, and what is gathered on the way."""

    def __init__(
        self, case: Case, sides: Sides, opened: Opened, plan: Plan, listeners: Sequence[Listener]
    ) -> None:
        self.blamer, self.kept = _blamer(case, plan), Kept(plan, case.options.keep)
        known = frozenset() if case.options.baseline is None else known_tensors(case.options.baseline)
        self.seeds = Seeds(plan, source_of(case, sides), wanted=case.options.keep != "none", known=known)
        self.scores: list[TaskMetric] = []
        self.further = 0
        self.still = Still()
        self.unmoved: tuple[str, ...] = ()
        self._case, self._opened, self._listeners = case, opened, listeners
        self._pairs: dict[str, PairResult] = {}
        self._ends: dict[str, OutputSeen] = {}
        self._inputs: dict[str, OtherInput] = {}
        self._outputs: list[Arrays] = []
        self._first: Ends | None = None
        self.plan, self.reached = plan, Reached(plan, derived=opened.derived)

    def add(self, seen: Seen, theirs: Arrays | None = None) -> None:
        """Judge one sample, and let go of its tensors unless a listener takes them.

        `theirs` are the twin's outputs as deployed where it has run already: a second run may be right by habit.
        """
        case, plan, job = self._case, self.plan, self._case.job
        ends = ends_of(plan, self._opened, seen, theirs)
        self._first = self._first or ends
        self._outputs.append(ends.ours)
        self.scores += _scores(case, plan, ends)
        self._inputs = {**_other_inputs(case, plan, seen), **self._inputs}
        with job.step("judge", ours=True):
            judged = judge_sample(plan, seen, job.report)
            outputs = judge_ends(plan, ends)
        for pair in judged:
            before = self._pairs.get(pair.site.tensor)
            self._pairs[pair.site.tensor] = pair if before is None else merge(before, pair)
        for output in outputs:
            past = self._ends.get(output.row.name)
            self._ends[output.row.name] = output if past is None else worse(past, output)
        self.reached.see(seen)
        self.still.see(seen.sample)
        self.kept.add(seen, judged)
        self.blamer.add(seen, judged, hidden=any(o.wrong for o in outputs))
        self.seeds.add(seen, judged)
        taken = [listener.judged(plan, seen, judged, self.blamer.blamed) for listener in self._listeners]
        if not any(taken):
            seen.close()

    @property
    def agrees(self) -> bool:
        """Whether nothing has failed so far, and nothing but the noise floor decides."""
        wrong = self._inputs or any(end.form or end.wrong for end in self._ends.values())
        return not (wrong or self.plan.tolerances) and verdict_of(tuple(self._pairs.values())) == "PASS"

    def shows(self, ends: Ends) -> bool:
        """Whether a sample shows a difference."""
        return any(end.form or end.wrong for end in judge_ends(self.plan, ends))

    def reach(self) -> None:
        """Add samples that reach bounds and branches of either side that those before did not."""
        case, plan = self._case, self.plan
        self.reached.see_rest(case.first)
        for sample in further_samples(case, plan, self.reached) if self.agrees else ():
            self._add_further(sample)
        for sample in odd_samples(case, plan):
            if not self.agrees:
                return
            other = both_ends(plan, sample)
            if other is not None and all_finite(other.ours) and self.shows(other):
                self._add_further(sample, other.theirs)

    def _add_further(self, sample: Arrays, theirs: Arrays | None = None) -> None:
        self._case.job.progress("a sample that reaches more of the network")
        self.add(run_sample(self._case, self.plan, len(self._outputs), None, sample), theirs)
        self.further += 1

    def outcome(self, *, cheap: bool) -> Outcome:
        """What all samples gave."""
        plan = self.plan
        pairs = [self._pairs[p.site.tensor] for p in plan.pairing.pairs]
        if plan.tolerances:
            # Once more by the worst figures of all samples, so that judging the run again says the same.
            pairs = [restated(p, plan.tolerances) for p in pairs]
        assert self._first is not None
        return Outcome(
            pairs, tuple(self._ends.values()), self._first, self._outputs, self._inputs, cheap=cheap
        )


def run_sample(
    case: Case, plan: Plan, number: int, traces: Traces | None, sample: Arrays | None = None
) -> Seen:
    """One sample through both sides; the first was traced to make the plan."""
    if sample is None:
        sample = case.first if number == 0 else case.feed.samples[number]
    if traces is None:
        traces = trace_both(case, plan, sample, unmatched=case.watch_all)
    shown = {n: np.asarray(a) for n, a in plan.twin.prepared(sample).items() if n in sample}
    prepared = {n: a for n, a in shown.items() if inputs_differ(np.asarray(sample[n]), a)}
    return Seen(number, sample, *traces, prepared)


def _other_inputs(case: Case, plan: Plan, seen: Seen) -> dict[str, OtherInput]:
    """Inputs that the twin prepared differently; everything after them inherits the difference."""
    found: dict[str, OtherInput] = {}
    for name, array in seen.prepared.items():
        ours = np.asarray(seen.sample[name])
        # A sample made from a picture can be resized again by other filters.
        samples = case.feed.samples
        pictures = samples if isinstance(samples, Joined) and seen.number < len(samples) else None
        others = () if pictures is None else pictures.resized(seen.number, name)
        tensor = plan.net.inputs.get(name, name)
        found[tensor] = OtherInput(name, ours, array, *input_cause(name, ours, array, others))
    return found


def _scores(case: Case, plan: Plan, ends: Ends) -> list[TaskMetric]:
    if case.metric is None:
        return []
    theirs = {row.name: ends.theirs[row.twin_name] for row in plan.outputs}
    return [task_metric(case.metric, ends.sample, ends.ours, theirs)]


def _blamer(case: Case, plan: Plan) -> Blamer:
    advise = case.options.advise
    if advise is None:
        return Blamer(plan, case.job)

    def adviser(context: Context) -> Adviser:
        from twinnet.blame.advise import Adviser

        sides = (plan.net, plan.twin)
        return Adviser(context, sides, case.twin, case.network, case.job, timed=case.options.profile)

    return Blamer(plan, case.job, adviser, target=advise.target, out=advise.out)


def source_of(case: Case, sides: Sides) -> Source:
    """Where the sides come from, for repros."""
    return Source(case.network, case.reference, case.twin, sides.derived, case.job)
