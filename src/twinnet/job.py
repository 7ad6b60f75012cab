"""What converting a network needs besides the network itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinnet.programs.place import HERE, Place
from twinnet.progress import Report, silent
from twinnet.time_limit import TimeLimits, limited

__all__ = ["Arrays", "Job"]

Arrays = Mapping[str, np.ndarray]


@dataclass
class Job:
    """What converting a network needs besides the network: example inputs, common options, timings.

    `samples` are all inputs of the check, for engines that calibrate with them; each is made on access.
    """

    inputs: Arrays
    samples: Sequence[Arrays] = ()
    threads: int | None = None
    time_limit: TimeLimits | Mapping[str, float] | float | None = None
    """Seconds for each step of an engine, or for single ones; ask `limit_of`."""
    memory: int | None = None
    ir_folder: Path | None = None
    """Folder for the intermediate representation of a compiling engine, or None."""
    timings: dict[str, float] = field(default_factory=dict)
    report: Report = silent
    place: Place = HERE
    """Where the programs of the engine run."""

    def progress(self, step: str, share: float | None = None) -> None:
        """Report the current step and, where known, the share of it that is done."""
        self.report(step, share)

    def limit_of(self, stage: str) -> float | None:
        """Seconds that an engine has for a stage, such as "compile the network"; None if they are not limited."""
        return TimeLimits.of(self.time_limit).at(stage)

    @contextmanager
    def step(self, name: str, *, ours: bool = False) -> Iterator[None]:
        """Time a named step (export, import, compile, load, run), and stop it when its time is up.

        A step that is `ours` has a limit only if that is stated for it by name.
        """
        self.progress(name)
        start = time.perf_counter()
        try:
            with limited(TimeLimits.of(self.time_limit).at(name, ours=ours), name):
                yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start
