"""Run one case: take its outcome from an earlier run if nothing has changed, else check it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.cache import cached_folder, content_key, find_folder, watch_cache
from twinnet.errors import EngineError, TwinnetError, machine_error
from twinnet.files import atomic_write, read_json
from twinnet.steps import step_of
from twinnet.suite.models import file_hash
from twinnet.suite.outcome import Case, Outcome
from twinnet.suite.profile import write_building, write_times
from twinnet.suite.stamps import engine_stamp, here_stamp, inputs_stamp
from twinnet.trust import trusting

if TYPE_CHECKING:
    import numpy as np

    from twinnet.result import Result
    from twinnet.suite.subject import Subject

__all__ = ["moved_run", "run_case"]

_OUTCOME, _RUN, _PLACE = "outcome.json", "run", "place"
_ALIKE = 4
"""How many of several identical layers give their activations as samples."""
_KEPT_STEPS = ("export", "import", "compile")
"""An ERROR of these steps would come again; one of another step may have been an accident."""


def run_case(case: Case, subject: Subject, folder: Path, chosen: Collection[str] = ()) -> Outcome:
    """Run a case and leave its run in `folder`; whatever stops it becomes an outcome with the verdict ERROR.

    `chosen` are the layers of the same model, engine and options that run in this session: the first of several
    identical ones stands for the others.
    """
    start = time.perf_counter()
    keep_as = ""
    with watch_cache() as use, trusting(subject.config.trust):
        try:
            outcome, keep_as = _run(case, subject, folder, chosen)
        except TwinnetError as error:
            outcome = _stopped(case, error)
        except (OSError, MemoryError) as error:
            outcome = _stopped(case, machine_error(error))
    if outcome.verdict == "ERROR" and not outcome.folder:
        _leave_message(outcome, folder)
        outcome = replace(outcome, folder=str(folder))
    if keep_as:
        cached_folder(keep_as, lambda made: _keep(made, outcome, folder))
    # After keeping it: times are those of this session only.
    if outcome.verdict in ("PASS", "FAIL"):
        with trusting(subject.config.trust):
            if subject.config.runtime_profile is not None:
                write_times(case, subject, subject.config.runtime_profile, folder)
            if subject.config.compile_profile is not None:
                write_building(case, subject, subject.config.compile_profile)
    return replace(outcome, seconds=time.perf_counter() - start, built=len(use.built))


def _run(case: Case, subject: Subject, folder: Path, chosen: Collection[str]) -> tuple[Outcome, str]:
    """The outcome, and the key to keep it under if it is new and would be the same again."""
    alike: tuple[str, ...] = ()
    if case.layer:
        captured = subject.captured
        if case.layer in captured.alone:
            why = f"it cannot run alone: {captured.alone[case.layer]}"
            return Outcome(case, "SKIP", message=why), ""
        alike = captured.like(case.layer)
        first = next((name for name in alike if name in chosen), case.layer)
        if first != case.layer:
            return Outcome(case, "SKIP", message=f"same as {first}", same_as=first), ""
        alike = (case.layer, *(name for name in alike if name != case.layer))
    key = _key(case, subject, alike)
    covers = tuple(name for name in alike[1:] if name in chosen)
    # What is installed on a board is not known here, and the IR is written by compiling.
    afresh = subject.config.debug_ir is not None or subject.config.board or "@ssh://" in case.spec
    known = None if afresh or key is None else find_folder(key)
    if known is not None:
        outcome = _known(known, folder)
        return replace(outcome, case=case, folder=str(folder), covers=covers, reused=True), ""
    result = _checked(case, subject, folder, alike)
    outcome = replace(_outcome(case, result), folder=str(folder), covers=covers)
    return outcome, key if key is not None and _lasting(outcome) and not afresh else ""


# -- the check -------------------------------------------------------------------------------------------------------


def _checked(case: Case, subject: Subject, folder: Path, alike: tuple[str, ...]) -> Result:
    from twinnet.check import check_with
    from twinnet.result import Result

    argv = ("twinnet", "suite", "-k", case.name)
    shutil.rmtree(folder, ignore_errors=True)
    if not case.layer:
        options, network, inputs = subject.options(), subject.network, subject.inputs()
        cut = None
    else:
        cut = subject.cut(case.layer)
        network, inputs = cut.network, [cut.sample]
        for name in alike[1:_ALIKE]:
            other = subject.cut(name).sample
            inputs.append(dict(zip(cut.sample, other.values(), strict=True)))
        if case.random:
            inputs = [_random(cut.sample, subject.config.seed)]
        options = replace(subject.options(), samples=None, preprocess=None)
    limits = replace(options.limits, time_limit=subject.config.limits_of(case.spec))
    options = replace(options, limits=limits)
    result = check_with(options, network, inputs, case.spec, out=folder, argv=argv)
    assert isinstance(result, Result)
    if cut is not None and cut.data and result.verdict != "PASS":
        from twinnet.store import write_tensors

        atomic_write(folder / f"layer{cut.suffix}", cut.data)
        write_tensors(folder / "inputs.safetensors", inputs[0])
    return result


def _random(sample: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Random values in the range of the real ones."""
    import numpy as np

    generator = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for name, array in sample.items():
        array = np.asarray(array)
        finite = array[np.isfinite(array)] if array.dtype.kind in "fc" else array
        if not finite.size or array.dtype.kind == "c":
            made[name] = array
        elif array.dtype.kind in "iu":
            drawn = generator.integers(int(finite.min()), int(finite.max()), array.shape, endpoint=True)
            made[name] = drawn.astype(array.dtype)
        elif array.dtype.kind == "b":
            made[name] = generator.random(array.shape) < 0.5
        else:
            low, high = float(finite.min()), float(finite.max())
            made[name] = (low + (high - low) * generator.random(array.shape)).astype(array.dtype)
    return made


def _outcome(case: Case, result: Result) -> Outcome:
    from twinnet.report import words

    figures = {}
    for output in result.outputs:
        figures["max_abs"] = max(figures.get("max_abs", 0.0), _finite(output.difference.max_abs))
        figures["ratio"] = max(figures.get("ratio", 0.0), _finite(output.ratio or 0.0))
    message = ""
    if result.verdict == "ERROR":
        message = result.error.strip().partition("\n")[0]
    elif result.verdict == "FAIL":
        message = words.verdict_words(result)
    return Outcome(
        case,
        result.verdict,
        step=step_of(result.stage) if result.verdict == "ERROR" else "",
        stage=result.stage,
        accident=result.accident,
        message=message,
        evidence=result.evidence,
        figures=figures,
    )


def _finite(value: float) -> float:
    return min(float(value), 1e300) if value == value else 1e300


def _stopped(case: Case, error: TwinnetError) -> Outcome:
    stage, accident = (error.stage, error.accident) if isinstance(error, EngineError) else ("import", "")
    return Outcome(case, "ERROR", step_of(stage), stage, str(error), accident=accident)


def _leave_message(outcome: Outcome, folder: Path) -> None:
    """A case that did not get as far as a check leaves its message where its run would be."""
    with suppress(TwinnetError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        atomic_write(folder / "error.txt", f"{outcome.kind}\n{outcome.message}\n".encode())


# -- reuse -----------------------------------------------------------------------------------------------------------


def _key(case: Case, subject: Subject, alike: tuple[str, ...]) -> str | None:
    """Everything that the outcome of a case depends on; None if that is not known."""
    config = subject.config
    engine = engine_stamp(case.spec, config)
    if engine is None:
        return None
    tolerance = subject.options().tolerance
    words = [
        here_stamp(),
        json.dumps([case.name, case.spec, case.layer, case.random, alike, config.place]),
        subject.content,
        inputs_stamp(subject.settings, config),
        engine,
        file_hash(Path(str(tolerance))) if tolerance else "",
        str(config.threads),
    ]
    return content_key("suite-case", *words)


def _lasting(outcome: Outcome) -> bool:
    """Whether an outcome would be the same again."""
    if outcome.verdict != "ERROR":
        return True
    return outcome.step in _KEPT_STEPS and not outcome.accident


def _keep(made: Path, outcome: Outcome, folder: Path) -> None:
    """Keep a run as an artefact; its files are shared with the report, which never changes them in place."""
    _linked(folder, made / _RUN)
    (made / _PLACE).write_text(str(folder))
    atomic_write(made / _OUTCOME, json.dumps(outcome.to_json()).encode())


def _known(kept: Path, folder: Path) -> Outcome:
    """The outcome of an earlier run, its run folder put in place."""
    if not _same_run(kept / _RUN, folder):
        shutil.rmtree(folder, ignore_errors=True)
        _linked(kept / _RUN, folder)
        if (kept / _PLACE).read_text() != str(folder):
            moved_run(folder)
    return Outcome.from_json(read_json(kept / _OUTCOME, "outcome"), str(kept / _OUTCOME))


def _same_run(kept: Path, folder: Path) -> bool:
    """Whether the run is in place already."""
    with suppress(OSError):
        return (kept / "result.json").samefile(folder / "result.json")
    return False


def _linked(source: Path, target: Path) -> None:
    def one(a: str, b: str) -> Any:
        try:
            os.link(a, b)
        except OSError:
            shutil.copy2(a, b)

    hidden = shutil.ignore_patterns(".*")
    shutil.copytree(source, target, copy_function=one, ignore=hidden)


def moved_run(folder: Path) -> None:
    """Write the files of a run that name their own folder once more; a folder without a result has none."""
    if not (folder / "result.json").exists():
        return
    from twinnet.report.files import write_run
    from twinnet.report.json_file import load_result
    from twinnet.report.show import load_tensors

    write_run(load_result(folder), folder, load_tensors(folder))
