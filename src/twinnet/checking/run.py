"""The check itself: open, run, judge, blame, keep, seeds, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinnet.checking.afterwards import afterwards
from twinnet.checking.case import Case
from twinnet.checking.ends import all_finite, both_ends
from twinnet.checking.judging import Judging, Listener, run_sample, source_of
from twinnet.checking.planning import open_both, plan_check
from twinnet.checking.profiled import measured_cost
from twinnet.checking.sides import Sides
from twinnet.checking.still import varied
from twinnet.checking.unknown import unknown_names
from twinnet.errors import EngineError, UsageError
from twinnet.judge import guards
from twinnet.judge.again import against_baseline
from twinnet.judge.aggregate import with_guards
from twinnet.judge.conclusion import conclude, null_baseline
from twinnet.judge.deployed import Ends
from twinnet.judge.moved import without_moved
from twinnet.judge.task import mean_metric
from twinnet.network import ModuleNetwork
from twinnet.profile import Measured
from twinnet.profile.model import FOLDER
from twinnet.result import Guard, Result, fact, said
from twinnet.shrink.collect import seeds_of_error

__all__ = ["Checked", "check_case", "run_case"]


_IN_MEMORY = 64 << 20
"""Bytes of tensors that a result without a run folder holds, to be drawn."""


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
    first = run_sample(case, plan, 0, traces)
    with job.step("judge", ours=True):
        plan = without_moved(plan, first)
    judging = Judging(case, sides, opened, plan, listeners)
    for number in range(len(samples)):
        job.progress(f"sample {number + 1} of {len(samples)}")
        judging.add(first if number == 0 else run_sample(case, plan, number, None))
    cheap = job.timings.get("judge", 0.0) < max(len(samples), 1)
    other = _moved(case, judging)
    if other is not None and judging.agrees and judging.shows(other):
        # No sample showed it, and another does: judged like the others, so that it is found where it is born.
        judging.add(run_sample(case, plan, len(samples), None, other.sample), other.theirs)
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


def _moved(case: Case, judging: Judging) -> Ends | None:
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


# -- report ----------------------------------------------------------------------------------------------------------


def _said(case: Case, sides: Sides, judging: Judging) -> Result:
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
        seeds=seeds_of_error(source_of(case, sides), error, opened=sides.net is not None) if wanted else (),
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
