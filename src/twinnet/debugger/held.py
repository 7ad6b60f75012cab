"""A check that is not over: both sides stay open, and the tensors of its most telling sample are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinnet.blame.context import Context
from twinnet.engines.base import Session
from twinnet.judge.judgement import Judgement
from twinnet.judge.seen import Seen
from twinnet.judge.verdicts import Born
from twinnet.pairing import Pair
from twinnet.result import PairResult
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

__all__ = ["Held"]


class Held(Judgement):
    """One check whose sessions and traces outlive its answer; `kept` is the sample that shows most."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.watch_all = True
        self.kept: tuple[Seen, tuple[PairResult, ...]] | None = None
        self._traces_again: list[Trace] = []

    def _done(self, seen: Seen, judged: Sequence[PairResult]) -> None:
        """The sample with the largest born error stays, else the one with the largest difference."""
        before = self.kept
        if before is None or _telling(judged) > _telling(before[1]):
            self.kept = (seen, tuple(judged))
            if before is None:
                return
            seen, judged = before
        super()._done(seen, judged)

    def close(self) -> None:
        """Not yet: `release` does."""

    def release(self) -> None:
        """Free traces and sessions."""
        if self.kept is not None:
            super()._done(*self.kept)
        for trace in self._traces_again:
            trace.close()
        super().close()

    @property
    def sessions(self) -> dict[str, Session]:
        """The two sides by name."""
        net, twin = self.sides.net, self.sides.twin
        assert net is not None and twin is not None
        return {"network": net, "twin": twin}

    def born(self, seen: Seen, pair: Pair) -> Born:
        """The born test of one pair."""
        if seen.test is None:
            return Born("not judged", reason="the network's layers cannot be evaluated")
        return seen.test.on(seen.sample, seen.trace, seen.twin_trace)(pair)

    def context(self, seen: Seen) -> Context | None:
        """What blame may look at."""
        return self.keeper.context(seen)

    def retrace(
        self, side: str, sample: Mapping[str, np.ndarray], patches: Mapping[str, np.ndarray]
    ) -> Trace:
        """One more run of a side with other tensors at some of its sites."""
        session = self.sessions[side]
        watch = {site.tensor for site in session.sites}
        trace = session.retrace(sample, patches, watch, TraceBuilder(self.settings.memory or DEFAULT_MEMORY))
        self._traces_again.append(trace)
        return trace


def _telling(judged: Sequence[PairResult]) -> tuple[bool, float, float]:
    failed = any(p.status == "fail" for p in judged)
    ratio = max((p.ratio or 0.0 for p in judged), default=0.0)
    return failed, ratio, max((p.difference.max_abs for p in judged), default=0.0)
