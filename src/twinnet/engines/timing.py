"""How long the steps of an engine take: every run of every step, as its own timers say."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["WARM_UP", "LayerTime", "Span", "Stopwatch", "Timed", "undisturbed"]

T = TypeVar("T")

WARM_UP = 2
"""Runs that do not count: the first also prepare memory and fill caches."""


@dataclass(frozen=True, slots=True)
class Span:
    """One execution of a step, in seconds.

    `run` counts the measured runs, `start` is the time since that run began (None if the engine does not say),
    `thread` any number that tells threads apart, `memory` the bytes in use when it ended, if the engine says so.
    """

    run: int
    seconds: float
    start: float | None = None
    thread: int = 0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The times of one step of an engine: a layer, several fused ones, or a conversion between layers.

    `tensors` are the sites (by `Site.tensor`) whose layers it computes, in order, and values of the network that are no
    sites, where the engine knows their names; empty if the engine added the step.
    `toward` are sites that it only helps to make: a product whose sum another step adds. `kernel` is the engine's name
    for the code that ran. `timer` are the seconds that the timers themselves add to each span, as measured with steps
    that compute next to nothing; they are in the spans, and taken off everywhere else.

    >>> step = LayerTime("c1", "Conv", (Span(0, 2e-3), Span(1, 3e-3), Span(1, 1e-3)), ("y",))
    >>> step.per_run, step.seconds, step.calls
    ((0.002, 0.004), 0.003, 2)
    >>> LayerTime("c1", "Conv", (Span(0, 3.0),), timer=1.0).seconds
    2.0
    """

    name: str
    op: str
    spans: tuple[Span, ...]
    tensors: tuple[str, ...] = ()
    kernel: str = ""
    toward: tuple[str, ...] = ()
    timer: float = 0.0

    @property
    def per_run(self) -> tuple[float, ...]:
        """Seconds in each run in which it was executed, all calls together."""
        total: dict[int, float] = {}
        for span in self.spans:
            total[span.run] = total.get(span.run, 0.0) + max(span.seconds - self.timer, 0.0)
        return tuple(total.values())

    @property
    def seconds(self) -> float:
        """The median over the runs."""
        return statistics.median(self.per_run) if self.spans else 0.0

    @property
    def calls(self) -> int:
        """How often one run executes it."""
        runs = len({span.run for span in self.spans})
        return round(len(self.spans) / runs) if runs else 0


@dataclass(frozen=True)
class Timed:
    """A session measured: its steps in execution order, and whole runs with and without the timers.

    `whole` are the seconds of the runs in which the steps were timed, `bare` those of runs of the same twin without
    timers, made in turns with the others; `looked_cpu` and `cpu` the CPU seconds of both, all threads together, where
    known. With `alone` each step was run by itself because the runtime has no timers: the steps need not add up to the
    whole.
    """

    steps: tuple[LayerTime, ...]
    whole: tuple[float, ...]
    bare: tuple[float, ...]
    cpu: tuple[float, ...] = ()
    alone: bool = False
    loading: tuple[tuple[str, float], ...] = ()
    """What the engine says about loading: name and seconds of each part."""
    looked_cpu: tuple[float, ...] = ()


def undisturbed(seconds: Sequence[float], cpu: Sequence[float]) -> tuple[float, ...]:
    """Runs by the clock, without the time that the process waited for its turn; `cpu` may be empty.

    With several threads the CPU time is the longer one, and the clock counts.

    >>> undisturbed([2.0, 5.0], [2.5, 1.5]), undisturbed([2.0], [])
    ((2.0, 1.5), (2.0,))
    """
    return tuple(min(pair) for pair in zip(seconds, cpu)) if cpu else tuple(seconds)


class Stopwatch:
    """Times calls: wall time and the CPU time of this process.

    >>> watch = Stopwatch()
    >>> watch(lambda: 5), len(watch.seconds), len(watch.cpu)
    (5, 1, 1)
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    def __call__(self, function: Callable[[], T]) -> T:
        cpu, start = time.process_time(), time.perf_counter()
        value = function()
        self.seconds.append(time.perf_counter() - start)
        self.cpu.append(time.process_time() - cpu)
        return value
