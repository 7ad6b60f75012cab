"""How long the steps of a twin take, from engines that measure it, as one CSV file for a case."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.engines import find_engine, parse_spec
from twinnet.errors import EngineError, UsageError
from twinnet.files import atomic_write
from twinnet.suite.opened import OpenedCase
from twinnet.suite.outcome import Case

if TYPE_CHECKING:
    from twinnet.suite.subject import Subject

__all__ = ["write_times"]


def write_times(case: Case, subject: Subject, path: Path) -> bool:
    """Measure a case and write the file; False if its engine measures nothing. The verdict does not depend on it."""
    if not find_engine(parse_spec(case.spec).engine).abilities.profile:
        return False
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(["step", "op", "seconds", "tensors", "kernel"])
    try:
        with OpenedCase(case, subject) as opened:
            for step in opened.times():
                rows.writerow(
                    [step.name, step.op, f"{step.seconds:.9f}", " ".join(step.tensors), step.kernel]
                )
    except (EngineError, UsageError) as error:
        rows.writerow(["not measured", "", "", "", str(error)])
    atomic_write(path, text.getvalue().encode("utf-8", "replace"))
    return True
