"""The check itself: open, run, judge, blame, keep, seeds, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from twinnet.blame.collect import Blamed, Blamer
from twinnet.checking.case import Case
from twinnet.checking.kept import Kept
from twinnet.checking.planning import Traces, open_both, plan_check, trace_both
from twinnet.checking.sides import Sides
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays
from twinnet.judge import guards
from twinnet.judge.again import against_baseline, restated
from twinnet.judge.aggregate import merge
from twinnet.judge.conclusion import Outcome, conclude, null_baseline
from twinnet.judge.inputs import OtherInput, input_cause, inputs_differ
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen, judge_sample
from twinnet.judge.task import mean_metric, task_metric
from twinnet.result import Guard, PairResult, Result, TaskMetric, fact, said
from twinnet.shrink.collect import Seeds, Source, seeds_of_error

__all__ = ["Checked", "Listener", "check_case", "run_case"]


class Listener(Protocol):
    """Sees each judged sample before its tensors are freed."""

    def judged(self, plan: Plan, seen: Seen, pairs: Sequence[PairResult], blamed: Blamed) -> bool:
        """Look at a sample; return True to take over its traces, and close them yourself."""
        ...


@dataclass(frozen=True)
class Checked:
    """The result, and the tensors of both sides to keep."""

    result: Result
    tensors: Mapping[str, tuple[np.ndarray, np.ndarray]]


def check_case(
    case: Case, *, folder: Path | None = None, argv: Sequence[str] = (), lenient: bool = False
) -> Result:
    """Check a case and write its run folder. An engine's failure gives the verdict ERROR, not an exception.

    With `lenient`, so does a twin that cannot be read (stage "read").
    """
    start = time.perf_counter()
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
    return _report(case, checked, folder, argv, time.perf_counter() - start)


def run_case(case: Case, sides: Sides, listeners: Sequence[Listener] = ()) -> Checked:
    """Run and judge every sample. The sides stay open; the caller closes them."""
    job, samples = case.job, case.feed.samples
    opened = open_both(case, sides)
    plan, traces = plan_check(case, opened)
    blamer, kept = _blamer(case, plan), Kept(plan, case.options.keep)
    seeds = Seeds(plan, _source(case, sides), wanted=case.options.keep != "none")
    worst: dict[str, PairResult] = {}
    inputs: dict[str, OtherInput] = {}
    outputs: list[Arrays] = [opened.plain]
    scores = _scores(case, plan, case.first, opened.plain, opened.twin_plain)
    for number in range(len(samples)):
        job.progress(f"sample {number + 1} of {len(samples)}")
        seen = _seen(case, plan, number, traces if number == 0 else None)
        if number:
            outputs.append(_outputs(plan, opened.plain, seen))
            scores += _scores(case, plan, seen.sample, outputs[-1], _twin_outputs(plan, seen))
        inputs = {**_other_inputs(case, plan, seen), **inputs}
        with job.step("judge"):
            judged = judge_sample(plan, seen, job.report)
        for pair in judged:
            before = worst.get(pair.site.tensor)
            worst[pair.site.tensor] = pair if before is None else merge(before, pair)
        kept.add(seen, judged)
        blamer.add(seen, judged)
        seeds.add(seen, judged)
        taken = [listener.judged(plan, seen, judged, blamer.blamed) for listener in listeners]
        if not any(taken):
            seen.close()
    pairs = [worst[p.site.tensor] for p in plan.pairing.pairs]
    if plan.tolerances:
        # Once more by the worst figures of all samples, so that judging the run again says the same.
        pairs = [restated(p, plan.tolerances) for p in pairs]
    cheap = job.timings.get("judge", 0.0) < max(len(samples), 1)
    outcome = Outcome(pairs, case.first, opened.plain, opened.twin_plain, outputs, inputs, cheap)
    with job.step("judge"):
        result = conclude(plan, outcome, _said(case, sides, plan, scores))
    if result.verdict == "PASS":
        result = null_baseline(plan, outcome, result, _moved(case, plan))
    result = blamer.blamed.on(result)
    result = replace(result, seeds=seeds.of(result), timings=dict(job.timings))
    return Checked(result, kept.tensors)


# -- run -------------------------------------------------------------------------------------------------------------


def _seen(case: Case, plan: Plan, number: int, traces: Traces | None) -> Seen:
    """Run one sample on both sides; the first was traced already, to make the plan."""
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
        resized = getattr(case.feed.samples, "resized", None)
        others = resized(seen.number, name) if resized is not None else ()
        tensor = plan.net.inputs.get(name, name)
        found[tensor] = OtherInput(name, ours, array, *input_cause(name, ours, array, others))
    return found


def _outputs(plan: Plan, plain: Arrays, seen: Seen) -> dict[str, np.ndarray]:
    """The network's outputs on one sample, by the names that a run gives them."""
    named = zip(plain, plan.net.output_tensors, strict=False)
    return {n: np.array(seen.trace[t]) for n, t in named if t in seen.trace}


def _twin_outputs(plan: Plan, seen: Seen) -> dict[str, np.ndarray]:
    return {row.twin_name: seen.twin_trace[row.twin_tensor] for row in plan.outputs}


def _moved(case: Case, plan: Plan) -> Arrays | None:
    """The network's outputs on a different input; None for a recording, or if there is no such input."""
    changed = guards.shuffled(case.first, case.options.seed)
    if len(case.feed.samples) > 1 or not plan.net.live or not changed:
        return None
    return plan.net.run(changed)


def _scores(case: Case, plan: Plan, sample: Arrays, ours: Arrays, theirs: Arrays) -> list[TaskMetric]:
    if case.metric is None:
        return []
    return [task_metric(case.metric, sample, ours, {row.name: theirs[row.twin_name] for row in plan.outputs})]


# -- blame, seeds ----------------------------------------------------------------------------------------------------


def _blamer(case: Case, plan: Plan) -> Blamer:
    advise = case.options.advise
    if advise is None:
        return Blamer(plan, case.job)

    def adviser(context: Any) -> Any:
        from twinnet.blame.advise import Adviser

        return Adviser(context, (plan.net, plan.twin), case.twin, case.network, case.job)

    return Blamer(plan, case.job, adviser, target=advise.target, out=advise.out)


def _source(case: Case, sides: Sides) -> Source:
    return Source(case.network, case.reference, case.twin, sides.derived, case.job)


# -- report ----------------------------------------------------------------------------------------------------------


def _said(case: Case, sides: Sides, plan: Plan, scores: Sequence[TaskMetric]) -> Result:
    """A result with what is known before judging: sides, inputs, guards."""
    found = [
        Guard("note", said(n))
        for n in (*_version_notes(), *case.feed.notes, *plan.net.notes, *plan.twin.notes)
    ]
    if case.job.ir_folder is not None and not case.job.ir_folder.exists():
        found.append(Guard("note", fact("note.no_ir", engine=plan.twin.engine)))
    found += plan.observed.guards
    if getattr(case.network, "was_training", False):
        found.append(Guard("training mode", fact("training_mode")))
    twin = sides.twin_info()
    return Result(
        verdict="PASS",
        network=sides.network_info(),
        twin=replace(twin, precision="int8") if plan.units.quantised else twin,
        inputs=case.feed.info,
        guards=tuple(found),
        metrics=mean_metric(scores),
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
        log=error.log,
        timings=dict(case.job.timings),
        seeds=seeds_of_error(_source(case, sides), error, opened=sides.net is not None) if wanted else (),
    )


def _report(case: Case, checked: Checked, folder: Path | None, argv: Sequence[str], seconds: float) -> Result:
    """Complete the result, apply the baseline and write the run folder."""
    import shlex

    from twinnet.environment import environment

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
    if folder is not None:
        from twinnet.report.files import write_run
        from twinnet.report.show import save_tensors
        from twinnet.shrink.collect import save

        case.job.progress("writing the report")
        write_run(result, folder, checked.tensors)
        save_tensors(folder, checked.tensors)
        save(folder, result.seeds)
    return result
