"""The options of a check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from twinnet.errors import UsageError
from twinnet.progress import Report, silent

if TYPE_CHECKING:
    from twinnet.judge.tolerance import Tolerance, Tolerances

__all__ = ["Advise", "Keep", "Level", "Limits", "Options"]

Level = Literal["outputs", "intermediates"]
Keep = Literal["worst", "all", "none"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a check.

    Args:
        threads: Threads for both engines; None leaves their default.
        memory: Bytes for the tensors of one run; the rest goes to disk.
        time_limit: Seconds after which a step of an engine (export, load, run, a program it starts) is stopped.
    """

    threads: int | None = None
    memory: int | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if self.time_limit is not None and not 0 <= self.time_limit < math.inf:
            raise UsageError(f"{self.time_limit:g} s is not a time limit", hint="a number of seconds")


@dataclass(frozen=True, slots=True)
class Advise:
    """Settings for the advice on which segments to keep in float.

    Args:
        target: Target SNR of the outputs in dB; None stops when more segments gain little.
        out: File to write the improved twin to.
    """

    target: float | None = None
    out: str | None = None


@dataclass(frozen=True)
class Options:
    """The keywords of `twinnet.check`; see there for their meaning."""

    reference: str | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    preprocess: Any = None
    samples: int | None = None
    seed: int = 0
    level: Level = "intermediates"
    watch: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    names: Mapping[str, str] | None = None
    tolerance: Tolerance | Tolerances | str | Path | None = None
    metric: Any = None
    baseline: str | Path | None = None
    keep: Keep = "worst"
    limits: Limits = field(default_factory=Limits)
    advise: Advise | None = None
    debug_ir: str | Path | None = None
    on: str | None = None
    progress: Report = silent
