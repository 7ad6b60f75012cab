"""Run the programs of an engine: without a shell, with a time limit, keeping the end of their logs.

A compiler or runtime may abort its process. As a separate program it cannot take the check down with it: any failure
becomes an `EngineError` with the end of its log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from twinnet.children import start_child, wait_child
from twinnet.errors import EngineError
from twinnet.time_limit import time_up

__all__ = [
    "Finished",
    "Task",
    "ending",
    "failed_program",
    "first_problem",
    "last_words",
    "start_program",
    "too_slow",
]

_KEPT = 4000


@dataclass(frozen=True, slots=True)
class Finished:
    """The output of a program that has ended."""

    out: str
    log: str


@dataclass(frozen=True, slots=True)
class Task:
    """What a program is started for. A failure reads "NAME could not STAGE: ...".

    A program that exceeds `limit` seconds is stopped, together with the processes it started. `said` picks the
    sentence of a log that names the problem.
    """

    name: str
    stage: str
    limit: float | None = None
    said: Callable[[str], str] | None = None


def start_program(
    arguments: Sequence[str],
    task: Task,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a program to its end, in `folder`, with these environment variables added.

    >>> import sys
    >>> start_program([sys.executable, "-c", "print(6 * 7)"], Task("python", "count")).out
    '42\\n'
    """
    name, stage, limit = task.name, task.stage, task.limit
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _shown(out, err):
        try:
            child = start_child(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
            )
        except OSError as error:
            raise EngineError(
                f"{name} could not {stage}: {arguments[0]} cannot be started ({error.strerror or error})",
                stage=stage,
                hint="is it installed, and executable?",
            ) from None
        try:
            code = wait_child(child, limit)
        except subprocess.TimeoutExpired:
            raise too_slow(task, last_words(_text(out) + _text(err))) from None
        finished = Finished(_text(out), _text(err))
    if code == 0:
        return finished
    raise failed_program(task, code, finished)


def too_slow(task: Task, log: str = "") -> EngineError:
    """The error for a program that exceeded its time limit."""
    return time_up(
        f"{task.name} could not {task.stage} within the time limit of {task.limit:g} s", task.stage, log
    )


def failed_program(task: Task, code: int, finished: Finished, *, absent_from: str = "") -> EngineError:
    """The error for a program that failed; `absent_from` names the machine that does not have it."""
    log = "\n".join(filter(None, (finished.out, finished.log)))
    sentence = (task.said or first_problem)(log)
    if absent_from:
        sentence = f"{absent_from} has no such program ({sentence})"
    how = ending(code) if code < 0 or not sentence else ""
    words = "; ".join(filter(None, (how, sentence)))
    return EngineError(
        f"{task.name} could not {task.stage}: {words[:400]}",
        stage=task.stage,
        log=last_words(log) or ending(code),
        accident="killed" if code < 0 else "",
    )


@contextmanager
def _shown(*files: IO[bytes]) -> Iterator[None]:
    """Show what is written into files as it comes, on stderr, if `$TWINNET_SHOW_PROGRAMS` asks for it."""
    if not os.environ.get("TWINNET_SHOW_PROGRAMS"):
        yield
        return
    over = threading.Event()

    def follow() -> None:
        read = [0] * len(files)
        last = False
        while not last:
            last = over.wait(0.2)
            for i, file in enumerate(files):
                while data := os.pread(
                    file.fileno(), 65536, read[i]
                ):  # leaves the program's place in the file
                    read[i] += len(data)
                    sys.stderr.write(data.decode(errors="replace"))
                    sys.stderr.flush()

    watcher = threading.Thread(target=follow, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def ending(code: int) -> str:
    """How a program ended, in words.

    >>> ending(-11), ending(3)
    ('it died of SIGSEGV', 'it ended with exit code 3')
    """
    if code < 0:
        try:
            return f"it died of {signal.Signals(-code).name}"
        except ValueError:
            return f"it died of signal {-code}"
    return f"it ended with exit code {code}"


def last_words(text: str) -> str:
    """The part of a log to keep: its end and, if that is further up, the first mention of an error."""
    lines = 25
    every = [line if len(line) <= 300 else line[:300] + " ..." for line in text.strip().splitlines()]
    end = "\n".join(every[-lines:])[-_KEPT:]
    first = next((i for i, line in enumerate(every) if re.search(r"\berror\b", line, re.I)), len(every))
    if first >= len(every) - lines and every[first:] and "\n".join(every[first:]) in end:
        return end
    start = "\n".join(every[first : min(first + 8, len(every) - lines)])[: _KEPT // 3]
    return f"{start}\n...\n{end[-(_KEPT - _KEPT // 3) :]}" if start else end


def first_problem(text: str) -> str:
    """The first line that mentions an error, else the last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    spoken = (line for line in lines if "error" in line.lower() or "fail" in line.lower())
    return next(spoken, lines[-1] if lines else "")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
