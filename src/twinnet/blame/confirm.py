"""Confirms findings: the twin's segment, run alone on the inputs it had, must still show the error."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from twinnet.blame.context import Context, outside
from twinnet.errors import EngineError, TwinnetError
from twinnet.pairing import Pair
from twinnet.result import Fact, fact
from twinnet.time_limit import TimeLimits

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.job import Job
    from twinnet.judge.verdicts import Born

__all__ = ["ALONE", "CONTEXT", "Confirmer"]

ALONE = fact("alone.shows")
CONTEXT = fact("alone.context")

SECONDS = 60.0
"""Time budget for all confirmations of one check, in seconds; a compiler needs some for every segment."""

Judge = Callable[[Pair, Mapping[str, np.ndarray]], "Born"]
"""Judges a pair with another trace of the twin."""


class Confirmer:
    """Runs segments of one twin alone while there is time. A failure to run says nothing about the twin."""

    def __init__(self, twin: Session, job: Job, seconds: float = SECONDS) -> None:
        self._twin = twin
        self._job = job
        self._seconds = self._left = seconds

    def confirm(self, pair: Pair, context: Context, judge: Judge) -> tuple[bool | None, Fact]:
        """Whether the segment of a failing pair fails alone too, and the fact that says so; None if unknown."""
        if self._left <= 0:
            return None, fact("alone.no_time", seconds=self._seconds)
        target, trace = pair.twin_site.tensor, context.twin_trace
        found = context.frontier(pair) if pair.site.tensor in context.graph.producer else None
        before = outside(pair, found[0] if found else (), context)
        known = {p.twin_site.tensor for p in before} | set(self._twin.inputs.values())
        try:
            with self._limited():
                alone = self._twin.part(target, {n for n in known - {target} if n in trace}, trace)
            born = judge(pair, ChainMap({target: alone}, trace))  # pyright: ignore[reportArgumentType]
        except TwinnetError as error:
            return None, _why(error)
        if born.status == "not judged":
            return None, fact("alone.not_judged", why=born.reason)
        return (True, ALONE) if born.status == "fail" else (False, CONTEXT)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Apply the remaining time, and leave the timings that the check reports as they are."""
        job, begun = self._job, time.monotonic()
        limit, timings = job.time_limit, dict(job.timings)
        job.time_limit = TimeLimits.of(limit).at_most(self._left)
        try:
            yield
        finally:
            job.time_limit = limit
            self._left -= time.monotonic() - begun
            job.timings.clear()
            job.timings.update(timings)


def _why(error: TwinnetError) -> Fact:
    if isinstance(error, EngineError) and error.stage == "cut":
        return fact("alone.not_cut", error=error.what)
    first = next((line for line in error.what.splitlines() if line.strip()), type(error).__name__)
    return fact("alone.failed", error=first.strip()[:160])
