"""A check that is not over: both sides stay open, and the tensors of its most telling sample are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twinnet.blame.context import Context
from twinnet.engines.base import Session, SiteJudge
from twinnet.judge.judgement import Judgement, Seen
from twinnet.judge.verdicts import Born
from twinnet.pairing import Pair
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

__all__ = ["Held"]


class Held(Judgement):
    """One check whose sessions and traces outlive its answer."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.watch_all = True
        self.kept_sample: Seen | None = None
        self.open_traces: list[Trace] = []

    def _seen(self, seen: Seen) -> None:
        """The sample that shows most stays: with the largest born error, else with the largest difference."""
        before = self.kept_sample
        if before is None or _telling(seen) > _telling(before):
            self.kept_sample, seen = seen, before or seen
        if seen is not self.kept_sample:
            super()._seen(seen)

    def close(self) -> None:
        """Not yet: `release` does."""

    def release(self) -> None:
        """Free traces and sessions."""
        if self.kept_sample is not None:
            super()._seen(self.kept_sample)
        for trace in self.open_traces:
            trace.close()
        super().close()

    @property
    def sessions(self) -> dict[str, Session]:
        """The two sides by name."""
        net, twin = self.sides.net, self.sides.twin
        assert net is not None and twin is not None
        return {"network": net, "twin": twin}

    def judge_of(self, seen: Seen) -> SiteJudge | None:
        """Who judges the sites of a sample."""
        return self._test(seen.graph, seen.pairing, seen.unit)

    def born(
        self, seen: Seen, trace: Mapping[str, Any], twin_trace: Mapping[str, Any]
    ) -> Callable[[Pair], Born]:
        """A judge of pairs under these traces."""
        test = self.judge_of(seen)
        if test is None:
            return lambda pair: Born("not judged", reason="the network's layers cannot be evaluated")
        return test.on(seen.sample, trace, twin_trace)

    def context_of(self, seen: Seen, trace: Any, twin_trace: Any) -> Context | None:
        """What blame may look at under these traces."""
        return self.context(seen.graph, seen.pairing, seen.sample, trace, twin_trace, seen.unit)

    def retrace(
        self, side: str, sample: Mapping[str, np.ndarray], patches: Mapping[str, np.ndarray]
    ) -> Trace:
        """One more run of a side with other tensors at some of its sites."""
        session = self.sessions[side]
        watch = {site.tensor for site in session.sites}
        trace = session.retrace(sample, patches, watch, TraceBuilder(self.settings.memory or DEFAULT_MEMORY))
        self.open_traces.append(trace)
        return trace


def _telling(seen: Seen) -> tuple[bool, float, float]:
    failed = any(p.status == "fail" for p in seen.judged)
    ratio = max((p.ratio or 0.0 for p in seen.judged), default=0.0)
    return failed, ratio, max((p.difference.max_abs for p in seen.judged), default=0.0)
