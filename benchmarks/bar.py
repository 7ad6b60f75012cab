"""A promise as a ratio, what was measured, and how both are printed and kept."""

from __future__ import annotations

import compileall
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Bar", "Cost", "compile_package", "print_bars", "run_apart", "write_json"]


@dataclass(frozen=True)
class Bar:
    """One row of the table. `limit` None: reported only."""

    what: str
    measured: float
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the promise holds in this run."""
        if self.limit is None:
            return True
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    wall: float
    cpu: float
    memory: float
    output: str


def compile_package() -> None:
    """Give our package its bytecode: pip does so for whatever it installs, but nobody does for a checkout."""
    import twinnet

    compileall.compile_dir(str(Path(twinnet.__file__).parent), quiet=2)


def run_apart(code: str, *arguments: str, python: str = sys.executable) -> Cost:
    """Run Python code in a process of its own; its CPU seconds, wall seconds and peak memory in MB."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    # Not what getrusage says: that includes the process which starts this one.
    tail = "\nprint('PEAK', *(s.split()[1] for s in open('/proc/self/status') if s.startswith('VmHWM')))\n"
    done = subprocess.run(
        [python, "-c", code + tail, *arguments], capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"benchmark process failed:\n{done.stderr[-2000:]}")
    body, _, peak = done.stdout.rpartition("PEAK ")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - start, cpu, int(peak) / 1024, body)


def print_bars(title: str, bars: Sequence[Bar]) -> None:
    """One table, a row per bar."""
    print(f"\n{title}")
    width = max(len(b.what) for b in bars)
    for bar in bars:
        limit = "" if bar.limit is None else f"{'>=' if bar.at_least else '<='} {bar.limit:g}"
        state = "" if bar.limit is None else "ok" if bar.met else "MISSED"
        print(f"  {bar.what:<{width}}  {bar.measured:>9.3g}  {limit:<9} {state:<7} {bar.note}".rstrip())


def write_json(path: Path, bars: Sequence[Bar]) -> None:
    """The same as data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([{**asdict(b), "met": b.met} for b in bars], indent=1))
