"""The times of a case: of the steps of its twin, and of building it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.engines import find_engine, parse_spec
from twinnet.errors import TwinnetError
from twinnet.files import atomic_write
from twinnet.suite.outcome import Case

if TYPE_CHECKING:
    from twinnet.checking.options import Options
    from twinnet.suite.subject import Subject

__all__ = ["write_building", "write_times"]

_REPEATS, _ROUNDS = 10, 1


def write_times(case: Case, subject: Subject, folder: Path, run: Path | None = None) -> bool:
    """Measure a case and write its profile as FOLDER/CASE/, and into its run; False if its engine measures nothing.

    The verdict does not depend on it: what goes wrong is written down instead, as profile-error.txt.
    """
    if not find_engine(parse_spec(case.spec).engine).abilities.profile:
        return False
    from twinnet.profile.model import FILE_NAME, FOLDER
    from twinnet.profiling import Plan, profile_with
    from twinnet.report.profiles import write_profile

    try:
        options, network, inputs = _asked(case, subject)
        (measured,) = profile_with(options, network, inputs, case.spec, Plan(_REPEATS, _ROUNDS))
    except TwinnetError as error:
        _leave(error, folder / case.name, "profile-error.txt", FILE_NAME)
        return True
    (folder / case.name / "profile-error.txt").unlink(missing_ok=True)
    for place in (folder / case.name, run / FOLDER if run is not None and run.is_dir() else None):
        if place is not None:
            write_profile(measured, place)
    return True


def write_building(case: Case, subject: Subject, folder: Path) -> None:
    """Build the twin of a case from scratch and write what each step took as FOLDER/CASE/compile.csv and .json.

    If that fails, compile-error.txt says why.
    """
    from twinnet.profiling import compile_profile_with
    from twinnet.report.profiles import write_compile_profile

    try:
        options, network, inputs = _asked(case, subject)
        made = compile_profile_with(options, network, inputs, case.spec)
    except TwinnetError as error:
        _leave(error, folder / case.name, "compile-error.txt", "compile.json")
        return
    (folder / case.name / "compile-error.txt").unlink(missing_ok=True)
    write_compile_profile(made, folder / case.name)


def _asked(case: Case, subject: Subject) -> tuple[Options, Any, Any]:
    """Options, network and the first sample of a case."""
    if not case.layer:
        return replace(subject.options(), samples=1), subject.network, subject.inputs()
    cut = subject.cut(case.layer)
    return replace(subject.options(), samples=None, preprocess=None), cut.network, [cut.sample]


def _leave(error: TwinnetError, folder: Path, name: str, instead: str) -> None:
    """Write down what went wrong; the file of an earlier session that is there `instead` goes."""
    (folder / instead).unlink(missing_ok=True)
    atomic_write(folder / name, f"not measured: {error}\n".encode("utf-8", "replace"))
