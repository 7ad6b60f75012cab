"""A check held open: both sides stay open, and the tensors of its most telling sample are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinnet.blame.collect import Blamed, context_of
from twinnet.blame.context import Context
from twinnet.checking.case import Case
from twinnet.checking.sides import Sides
from twinnet.engines.base import Session
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen
from twinnet.judge.verdicts import Born
from twinnet.pairing import Pair
from twinnet.result import PairResult, fact
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

__all__ = ["Held"]


class Held:
    """Both open sides of a check, and its most telling sample, kept by listening to the check."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.sides = Sides(case)
        self.plan: Plan | None = None
        self.kept: tuple[Seen, tuple[PairResult, ...]] | None = None
        self.blamed = Blamed()
        self._traces_again: list[Trace] = []

    def judged(self, plan: Plan, seen: Seen, pairs: Sequence[PairResult], blamed: Blamed) -> bool:
        """Keep the sample with the largest born error, else the one with the largest difference."""
        self.plan, self.blamed = plan, blamed
        before = self.kept
        if before is not None and _telling(pairs) <= _telling(before[1]):
            return False
        self.kept = (seen, tuple(pairs))
        if before is not None:
            before[0].close()
        return True

    def release(self) -> None:
        """Free traces and sessions."""
        if self.kept is not None:
            self.kept[0].close()
        for trace in self._traces_again:
            trace.close()
        self.sides.close()

    @property
    def sessions(self) -> dict[str, Session]:
        """The two sides by name."""
        net, twin = self.sides.net, self.sides.twin
        assert net is not None and twin is not None
        return {"network": net, "twin": twin}

    def born(self, seen: Seen, pair: Pair) -> Born:
        """Run the born test on one pair."""
        if self.plan is None or self.plan.test is None:
            return Born("not judged", reason=fact("born.no_layers"))
        return self.plan.test.on(seen.sample, seen.trace, seen.twin_trace)(pair)

    def context(self, seen: Seen) -> Context | None:
        """The context for blame; None before the plan is made."""
        return None if self.plan is None else context_of(self.plan, seen)

    def retrace(
        self, side: str, sample: Mapping[str, np.ndarray], patches: Mapping[str, np.ndarray]
    ) -> Trace:
        """Run a side again with other tensors at some of its sites."""
        session = self.sessions[side]
        watch = {site.tensor for site in session.sites}
        trace = session.retrace(sample, patches, watch, TraceBuilder(self.case.job.memory or DEFAULT_MEMORY))
        self._traces_again.append(trace)
        return trace


def _telling(judged: Sequence[PairResult]) -> tuple[bool, float, float]:
    failed = any(p.status == "fail" for p in judged)
    ratio = max((p.ratio or 0.0 for p in judged), default=0.0)
    return failed, ratio, max((p.difference.max_abs for p in judged), default=0.0)
