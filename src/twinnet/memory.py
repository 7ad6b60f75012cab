"""How much memory this process has used, alone or with the programs it started."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

__all__ = ["MemoryWatch", "forget_peak", "peak_memory"]

_PROCESS = Path("/proc/self")
_OFTEN = 0.1
"""Seconds between two looks at the programs."""


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes; 0 where the system does not tell.

    What `getrusage` says includes, on Linux, the process that started this one: it is asked only elsewhere.

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


class MemoryWatch:
    """The most memory that this process and the programs it started hold together, while the block runs.

    Engines that may abort run in programs of their own. Programs are looked at ten times a second, where the system
    lists them (Linux); elsewhere, and on other machines, they are not counted. Memory they share counts for each.

    >>> with MemoryWatch() as watch:
    ...     held = bytearray(50 << 20)
    >>> watch.peak == 0 or watch.peak > 50 << 20
    True
    """

    def __init__(self) -> None:
        self._most = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="twinnet memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        forget_peak()
        self._thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self._done.set()
        self._thread.join()
        self._most = max(self._most, peak_memory())

    @property
    def peak(self) -> int:
        """In bytes; 0 where the system does not tell."""
        return self._most

    def _look(self) -> None:
        while not self._done.wait(_OFTEN):
            self._most = max(self._most, _held_together())


def _held_together() -> int:
    """What this process and all below it hold now, in bytes."""
    parents: dict[int, int] = {}
    held: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in (p.name for p in Path("/proc").iterdir() if p.name.isdigit()):
            with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
                # The name in brackets may hold anything; the parent is the second word after it, pages the 22nd.
                words = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                parents[int(name)], held[int(name)] = int(words[1]), int(words[21])
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(held.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE") if held else 0
