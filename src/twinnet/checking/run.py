"""The check itself: open, run, judge, blame, keep, seeds, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from twinnet.blame.collect import Blamed, Blamer
from twinnet.checking.afterwards import afterwards
from twinnet.checking.case import Case
from twinnet.checking.ends import all_finite, both_ends, ends_of
from twinnet.checking.kept import Kept
from twinnet.checking.planning import Opened, Traces, open_both, plan_check, trace_both
from twinnet.checking.profiled import measured_cost
from twinnet.checking.reach import Reached, further_samples, odd_samples
from twinnet.checking.sides import Sides
from twinnet.checking.still import Still, varied
from twinnet.checking.unknown import unknown_names
from twinnet.errors import EngineError, UsageError
from twinnet.inputs.samples import Joined
from twinnet.job import Arrays
from twinnet.judge import guards
from twinnet.judge.again import against_baseline, known_tensors, restated
from twinnet.judge.aggregate import merge, verdict_of, with_guards
from twinnet.judge.conclusion import Outcome, conclude, null_baseline
from twinnet.judge.deployed import Ends, OutputSeen, judge_ends, worse
from twinnet.judge.inputs import OtherInput, input_cause, inputs_differ
from twinnet.judge.moved import without_moved
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen, judge_sample
from twinnet.judge.task import mean_metric, task_metric
from twinnet.network import ModuleNetwork
from twinnet.profile import Measured
from twinnet.profile.model import FOLDER
from twinnet.result import Guard, PairResult, Result, TaskMetric, fact, said
from twinnet.shrink.collect import Seeds, Source, seeds_of_error

if TYPE_CHECKING:
    from twinnet.blame.advise import Adviser
    from twinnet.blame.context import Context

__all__ = ["Checked", "Listener", "check_case", "run_case"]


_IN_MEMORY = 64 << 20
"""Bytes of tensors that a result without a run folder holds, to be drawn."""


class Listener(Protocol):
    """Sees each judged sample before its tensors are freed."""

    def judged(self, plan: Plan, seen: Seen, pairs: Sequence[PairResult], blamed: Blamed) -> bool:
        """Look at a sample; return True to take over its traces, and close them yourself."""
        ...


@dataclass(frozen=True)
class Checked:
    """The result, the tensors of both sides to keep, and the twin's profile if it was measured."""

    result: Result
    tensors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    measured: Measured | None = None


def check_case(
    case: Case, *, folder: Path | None = None, argv: Sequence[str] = (), lenient: bool = False
) -> Result:
    """Check a case and write its run folder. An engine's failure gives the verdict ERROR, not an exception.

    With `lenient`, so does a twin that cannot be read (stage "read").
    """
    from twinnet.report.files import run_written

    with run_written(folder) as stage:
        start = time.perf_counter()
        checked = _checked(case, lenient=lenient)
        return _report(case, checked, (folder, stage), argv, time.perf_counter() - start)


def _checked(case: Case, *, lenient: bool) -> Checked:
    sides = Sides(case)
    try:
        checked = run_case(case, sides)
    except EngineError as error:
        checked = Checked(_error(case, sides, error), {})
    except UsageError as error:
        if not lenient:
            raise
        checked = Checked(
            _error(case, sides, EngineError(error.what, stage="read", hint=error.hint), seeds=False), {}
        )
    except Exception as error:
        for note in _version_notes():
            error.add_note(note)
        raise
    finally:
        sides.close()
    return checked


def run_case(case: Case, sides: Sides, listeners: Sequence[Listener] = ()) -> Checked:
    """Run and judge every sample. The sides stay open; the caller closes them."""
    job, samples = case.job, case.feed.samples
    opened = open_both(case, sides)
    plan, traces = plan_check(case, opened)
    first = _seen(case, plan, 0, traces)
    with job.step("judge", ours=True):
        plan = without_moved(plan, first)
    judging = _Judging(case, sides, opened, plan, listeners)
    for number in range(len(samples)):
        job.progress(f"sample {number + 1} of {len(samples)}")
        judging.add(first if number == 0 else _seen(case, plan, number, None))
    cheap = job.timings.get("judge", 0.0) < max(len(samples), 1)
    other = _moved(case, judging)
    if other is not None and judging.agrees and judging.shows(other):
        # No sample showed it, and another does: judged like the others, so that it is found where it is born.
        judging.add(_seen(case, plan, len(samples), None, other.sample), other.theirs)
    judging.reach()
    outcome = judging.outcome(cheap=cheap)
    with job.step("judge", ours=True):
        result = conclude(plan, outcome, _said(case, sides, judging))
    if result.verdict == "PASS":
        result = null_baseline(plan, outcome, result, other)
        result = with_guards(result, afterwards(case, opened, plan, judging.still, other))
    result = judging.blamer.blamed.on(result)
    measured = None
    if case.options.profile:
        job.progress("measuring the twin")
        cost, measured = measured_cost(case, opened, plan.pairing)
        result = replace(result, cost=cost)
    result = replace(result, seeds=judging.seeds.of(result), timings=dict(job.timings))
    return Checked(result, judging.kept.tensors, measured)


class _Judging:
    """Samples one after the other: the worst of every pair and output so far, and what is gathered on the way."""

    def __init__(
        self, case: Case, sides: Sides, opened: Opened, plan: Plan, listeners: Sequence[Listener]
    ) -> None:
        self.blamer, self.kept = _blamer(case, plan), Kept(plan, case.options.keep)
        known = frozenset() if case.options.baseline is None else known_tensors(case.options.baseline)
        self.seeds = Seeds(plan, _source(case, sides), wanted=case.options.keep != "none", known=known)
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
        self.add(_seen(self._case, self.plan, len(self._outputs), None, sample), theirs)
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


# -- run -------------------------------------------------------------------------------------------------------------


def _seen(case: Case, plan: Plan, number: int, traces: Traces | None, sample: Arrays | None = None) -> Seen:
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


def _moved(case: Case, judging: _Judging) -> Ends | None:
    """Both sides on a different input of the same kind; None where there is none, or a side cannot run it.

    What all samples have in common (grey pictures, dark borders, an input that never changes) hides a fault. By a
    stated tolerance nearly anything may pass, so that a lone sample is moved there as well.
    """
    plan, seed, lone = judging.plan, case.options.seed, len(case.feed.samples) == 1
    if not plan.net.live or not (judging.agrees or (lone and plan.tolerances)):
        return None
    shuffled = guards.shuffled(case.first, seed)
    more = varied(case.first, judging.still.same, seed, narrow=plan.units.narrow) if plan.twin.live else {}
    for sample in ({**case.first, **shuffled, **more} if more else {}, shuffled):
        other = both_ends(plan, sample) if sample else None
        if other is not None and (sample is shuffled or all_finite(other.ours)):
            break
    else:
        other = None
    if plan.twin.live:
        seen = case.first if other is None else other.sample
        judging.unmoved = tuple(
            n for n in sorted(judging.still.same) if np.array_equal(case.first[n], seen[n])
        )
    return other


def _scores(case: Case, plan: Plan, ends: Ends) -> list[TaskMetric]:
    if case.metric is None:
        return []
    theirs = {row.name: ends.theirs[row.twin_name] for row in plan.outputs}
    return [task_metric(case.metric, ends.sample, ends.ours, theirs)]


# -- blame, seeds ----------------------------------------------------------------------------------------------------


def _blamer(case: Case, plan: Plan) -> Blamer:
    advise = case.options.advise
    if advise is None:
        return Blamer(plan, case.job)

    def adviser(context: Context) -> Adviser:
        from twinnet.blame.advise import Adviser

        sides = (plan.net, plan.twin)
        return Adviser(context, sides, case.twin, case.network, case.job, timed=case.options.profile)

    return Blamer(plan, case.job, adviser, target=advise.target, out=advise.out)


def _source(case: Case, sides: Sides) -> Source:
    return Source(case.network, case.reference, case.twin, sides.derived, case.job)


# -- report ----------------------------------------------------------------------------------------------------------


def _said(case: Case, sides: Sides, judging: _Judging) -> Result:
    """What is known beside the numbers: sides, inputs, and the guards that spoke before judging."""
    plan = judging.plan
    found = [
        Guard("note", said(n))
        for n in dict.fromkeys((*_version_notes(), *case.feed.notes, *plan.net.notes, *plan.twin.notes))
    ]
    if case.job.ir_folder is not None and not case.job.ir_folder.exists():
        found.append(Guard("note", fact("note.no_ir", engine=plan.twin.engine)))
    found += [*unknown_names(case.options, plan), *plan.observed.guards]
    if isinstance(case.network, ModuleNetwork) and case.network.was_training:
        found.append(Guard("training mode", fact("training_mode")))
    found += guards.not_reached(judging.reached.missing, judging.reached.twins)
    found += guards.unmoved(judging.unmoved)
    found += guards.overwritten(plan.twin)
    twin, inputs = sides.twin_info(), case.feed.info
    if judging.further:
        more = f"{inputs.description}, and {judging.further} stretched to reach more of the network"
        inputs = replace(inputs, samples=inputs.samples + judging.further, description=more)
    return Result(
        verdict="PASS",
        network=sides.network_info(),
        twin=replace(twin, precision="int8") if plan.units.quantised else twin,
        inputs=inputs,
        guards=tuple(found),
        metrics=mean_metric(judging.scores),
    )


def _version_notes() -> tuple[str, ...]:
    """Notes on the PyTorch version; none if torch was not imported."""
    if "torch" not in sys.modules:
        return ()
    from twinnet.torch_versions import notes

    return notes()


def _error(case: Case, sides: Sides, error: EngineError, *, seeds: bool = True) -> Result:
    """The ERROR result of a side that could not run, with the engine's message."""
    wanted = seeds and case.options.keep != "none"
    return Result(
        verdict="ERROR",
        network=sides.network_info(),
        twin=sides.twin_info(),
        inputs=case.feed.info,
        guards=tuple(Guard("note", said(note)) for note in _version_notes()),
        error=error.what if error.hint is None else f"{error.what}\n  {error.hint}",
        stage=error.stage,
        accident=error.accident,
        log=error.log,
        timings=dict(case.job.timings),
        seeds=seeds_of_error(_source(case, sides), error, opened=sides.net is not None) if wanted else (),
    )


def _report(
    case: Case,
    checked: Checked,
    place: tuple[Path | None, Path | None],
    argv: Sequence[str],
    seconds: float,
) -> Result:
    """Complete the result, apply the baseline and write the run: for the first folder, into the second."""
    import shlex

    from twinnet.environment import environment

    folder, stage = place
    result = replace(
        checked.result,
        timings={**checked.result.timings, "total": seconds},
        environment=environment(),
        command=shlex.join(argv),
        argv=tuple(argv),
        folder="" if folder is None else str(folder),
    )
    if case.options.baseline is not None:
        result = against_baseline(result, case.options.baseline)
    if stage is not None:
        from twinnet.report.files import write_run
        from twinnet.report.show import save_tensors
        from twinnet.shrink.collect import save

        case.job.progress("writing the report")
        save_tensors(stage, checked.tensors)
        save(stage, result.seeds)
        if checked.measured is not None:
            from twinnet.report.profiles import write_profile

            write_profile(checked.measured, stage / FOLDER)
        write_run(result, stage, checked.tensors)
        return result
    return replace(result, tensors=_few(checked.tensors))


def _few(tensors: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The first of these tensors, as many as a result may hold in memory."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    room = _IN_MEMORY
    for name, pair in tensors.items():
        room -= sum(array.nbytes for array in pair)
        if room >= 0:
            found[name] = pair
    return found
