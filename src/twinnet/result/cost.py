"""What a twin costs: time, memory and size, beside its verdict."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cost"]


@dataclass(frozen=True, slots=True)
class Cost:
    """A twin measured: seconds of one run (the median, and between which values eight of ten runs lie), the memory it
    needs at least and the size of what ships, in bytes. `cpu` are the CPU seconds of a run, all threads together, where
    they are known. `problem` says why there are no seconds."""

    seconds: float | None = None
    p10: float | None = None
    p90: float | None = None
    memory: int | None = None
    size: int | None = None
    problem: str = ""
    cpu: float | None = None
