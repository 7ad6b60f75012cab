"""Read damaged files in processes of their own, and count what happens."""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from tools.fuzz_readers.damage import damaged
from tools.fuzz_readers.reader import Reader
from twinnet.errors import TwinnetError, machine_error

__all__ = ["Row", "fuzz"]

HANG = 10
"""Seconds for one file."""
MEMORY = 12 << 30
"""Bytes of address space, PyTorch's own among them."""
BATCH = 100
"""Files per process: a crash costs what is left of one batch."""


@dataclass
class Row:
    """What one reader did with its files."""

    reader: str
    files: int = 0
    read: int = 0
    refused: int = 0
    traces: int = 0
    crashes: int = 0
    hangs: int = 0
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict[str, int])


def fuzz(name: str, reader: Reader, files: int, seed: int, keep: Path) -> Row:
    """Damage files and read them, some in each process."""
    row, begun = Row(name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twinnet-fuzz-") as folder:
        home = Path(folder)
        with _quiet():
            reader.make(home)
        good = sorted(p for p in home.glob(reader.files) if p.is_file())
        importlib.import_module("torch._dynamo")  # slow, and needed for an error: once, here
        reader.read(good[0])
        first = 0
        while first < files:
            last = min(first + BATCH, files)
            first = _batch(row, reader, good, range(first, last), seed, keep)
            print(f"\r{name}: {first} of {files}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    row.files, row.seconds = files, round(time.monotonic() - begun, 1)
    return row


def _batch(row: Row, reader: Reader, good: Sequence[Path], numbers: range, seed: int, keep: Path) -> int:
    """Read a batch in a child, and return the number to go on with: the one after the last, or after a crash."""
    answers, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(answers)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for number in numbers:
                os.write(theirs, (json.dumps([number, "start", ""]) + "\n").encode())
                answer = _one(reader, good, number, seed)
                os.write(theirs, (json.dumps([number, *answer]) + "\n").encode())
        finally:
            os._exit(0)
    os.close(theirs)
    current, next_number = numbers.start, numbers.start
    with os.fdopen(answers) as lines:
        for line in lines:
            current, what, text = json.loads(line)
            if what == "start":
                continue
            next_number = current + 1
            _count(row, what, text)
            if what in ("trace", "hang"):
                _keep(keep, row.reader, good, current, seed, text)
    _, status = os.waitpid(child, 0)
    if next_number >= numbers.stop:
        return next_number
    code = -os.waitstatus_to_exitcode(status)
    what = "hang" if code in (signal.SIGALRM, signal.SIGPROF) else "crash"
    _count(row, what, signal.Signals(code).name if code > 0 else f"exit {-code}")
    _keep(keep, row.reader, good, current, seed, what)
    return current + 1


def _one(reader: Reader, good: Sequence[Path], number: int, seed: int) -> tuple[str, str]:
    draw = random.Random(f"{seed}:{number}")
    path = draw.choice(list(good))
    whole = path.read_bytes()
    path.write_bytes(damaged(whole, draw))
    signal.setitimer(signal.ITIMER_PROF, HANG)
    signal.alarm(10 * HANG)
    try:
        with _quiet():
            reader.read(path)
    except (TwinnetError, OSError, MemoryError) as error:
        said = error if isinstance(error, TwinnetError) else machine_error(error)
        return "refused", type(said).__name__
    except BaseException:
        return "trace", traceback.format_exc()[-4000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        path.write_bytes(whole)
    return "read", ""


def _count(row: Row, what: str, text: str) -> None:
    name = {"read": "read", "refused": "refused", "trace": "traces", "crash": "crashes", "hang": "hangs"}[
        what
    ]
    setattr(row, name, getattr(row, name) + 1)
    if text.strip():
        kind = text.strip().splitlines()[-1][:120]
        row.kinds[kind] = row.kinds.get(kind, 0) + 1


def _keep(keep: Path, reader: str, good: Sequence[Path], number: int, seed: int, text: str) -> None:
    """Make the file again, for whoever mends the reader."""
    draw = random.Random(f"{seed}:{number}")
    path = draw.choice(list(good))
    keep.mkdir(parents=True, exist_ok=True)
    stem = f"{reader.replace(' ', '-')}-{number}"
    (keep / f"{stem}-{path.name}").write_bytes(damaged(path.read_bytes(), draw))
    (keep / f"{stem}.txt").write_text(text)


@contextmanager
def _quiet() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
