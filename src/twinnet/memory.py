"""How much memory this process has used."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

__all__ = ["forget_peak", "peak_memory"]

_PROCESS = Path("/proc/self")


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes; 0 where the system does not tell.

    >>> peak_memory() >= 0
    True
    """
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROCESS / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def forget_peak() -> None:
    """Measure `peak_memory` from now on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")
