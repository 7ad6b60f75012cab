"""What it costs to type `twinnet --help`."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.bar import Bar

__all__ = ["bars"]


def bars() -> list[Bar]:
    """CPU seconds of the installed command, the least of five."""
    command = Path(sys.executable).parent / "twinnet"
    least = float("inf")
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(command), "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return [Bar("twinnet --help, CPU s", least, 0.3)]
