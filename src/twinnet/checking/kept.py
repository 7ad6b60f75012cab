"""Tensors kept for the report: copies of both sides, taken before the traces are freed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinnet.checking.options import Keep
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen
from twinnet.result import PairResult

__all__ = ["Kept"]

_KEPT = 8
_KEPT_BYTES = 32 << 20


class Kept:
    """Keeps outputs, findings and the worst other tensors. `tensors` holds both sides by network tensor."""

    def __init__(self, plan: Plan, keep: Keep) -> None:
        self._pairs = {p.site.tensor: p for p in plan.pairing.pairs}
        self._keep = keep
        self.tensors: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def add(self, seen: Seen, judged: Sequence[PairResult]) -> None:
        """Keep tensors of one judged sample; a failing tensor replaces an earlier copy."""
        if self._keep == "none":
            return
        everything = self._keep == "all"
        ranked = sorted(
            judged,
            key=lambda p: (p.status == "fail", p.site.role == "output", p.ratio or 0.0, p.difference.max_abs),
            reverse=True,
        )
        for result in ranked if everything else ranked[:_KEPT]:
            name = result.site.tensor
            if not everything and seen.trace[name].nbytes > _KEPT_BYTES:
                continue
            if name not in self.tensors or result.status == "fail":
                ours, theirs = seen.tensors(self._pairs[name])
                self.tensors[name] = (np.array(ours), np.array(theirs))
        if not everything and len(self.tensors) > 2 * _KEPT:
            for name in list(self.tensors)[2 * _KEPT :]:
                del self.tensors[name]
