"""One sample run on both sides, and the judgement of every pair on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from twinnet.judge.deployed import plain_difference
from twinnet.judge.metrics import compare, why_not
from twinnet.judge.parallel import mapping
from twinnet.judge.plan import Plan
from twinnet.judge.tolerance import by_tolerance
from twinnet.judge.verdicts import Born
from twinnet.pairing import Pair
from twinnet.precision import dtype_class
from twinnet.progress import Report, silent
from twinnet.result import Difference, Fact, Judged, PairResult, fact
from twinnet.store import dtype_name
from twinnet.trace import Trace

__all__ = ["Seen", "judge_sample"]


@dataclass(frozen=True)
class Seen:
    """One sample run on both sides: its inputs and both traces.

    `prepared` holds inputs that the twin prepared itself and that differ from the network's.
    """

    number: int
    sample: Mapping[str, np.ndarray]
    trace: Trace
    twin_trace: Trace
    prepared: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def twin_sample(self) -> Mapping[str, np.ndarray]:
        """The inputs the twin ran on."""
        return {**self.sample, **self.prepared} if self.prepared else self.sample

    def tensors(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Return a pair's tensor on both sides, the twin's transformed to the network's form."""
        theirs = pair.transform.to_network(self.twin_trace[pair.twin_site.tensor])
        return self.trace[pair.site.tensor], theirs

    def close(self) -> None:
        """Free both traces."""
        self.trace.close()
        self.twin_trace.close()


def judge_sample(plan: Plan, seen: Seen, progress: Report = silent) -> list[PairResult]:
    """Judge every pair on one sample: plain comparison, born test, status."""
    return _Judge(plan, seen).all(progress)


class _Judge:
    def __init__(self, plan: Plan, seen: Seen) -> None:
        self._plan = plan
        self._seen = seen
        self._born: Callable[[Pair], Born] | None = None
        if plan.test is not None:
            self._born = plan.test.on(seen.twin_sample, seen.trace, seen.twin_trace)
        self._equal: dict[str, bool] = {}

    def all(self, progress: Report) -> list[PairResult]:
        pairing = self._plan.pairing
        pairs = pairing.pairs
        order = {s.tensor: i for i, s in enumerate(pairing.sites)}
        judged: list[PairResult] = []
        elements = sum(self._seen.trace[p.site.tensor].size for p in pairs) / max(len(pairs), 1)
        with mapping(elements) as over:
            compared = list(over(self._plain, pairs))
            for pair, (difference, _) in zip(pairs, compared, strict=True):
                if difference:
                    self._equal[pair.site.tensor] = difference.differing == 0
            found = over(self._born_of, pairs)
            for done, (pair, (difference, problem), born) in enumerate(
                zip(pairs, compared, found, strict=True)
            ):
                progress("judging", done / len(pairs))
                judged.append(self._status(pair, born, difference, problem, order[pair.site.tensor]))
        return judged

    def _plain(self, pair: Pair) -> tuple[Difference | None, Fact | None]:
        a, b = self._seen.tensors(pair)
        problem = why_not(a, b)
        return (compare(a, b), None) if problem is None else (None, problem)

    def _same(self, pair: Pair) -> Born | None:
        """The judgement of a pair that is bit-equal from bit-equal inputs, which needs no evaluation; else None."""
        tensor, graph, test, equal = pair.site.tensor, self._plan.graph, self._plan.test, self._equal
        if test is None or not equal[tensor] or (graph is not None and tensor not in graph.producer):
            return None
        known = {tensor for tensor, name in test.inputs.items() if name not in self._seen.prepared}
        if not all(equal.get(n, n in known or n in test.shape_values) for n in test.segment(tensor)[1]):
            return None
        array = self._seen.trace[tensor]
        if dtype_class(array.dtype) == "float" and (array.size == 0 or not np.any(array)):
            return Born("untested", 0.0, 0.0, 0.0, fact("born.zero"), test.labels(tensor))
        return Born("pass", 0.0, 0.0, 0.0, segment=test.labels(tensor))

    def _born_of(self, pair: Pair) -> Born:
        if self._born is None or pair.site.tensor not in self._equal:
            return Born("not judged")
        return self._same(pair) or self._born(pair)

    def _status(
        self, pair: Pair, born: Born, difference: Difference | None, problem: Fact | None, order: int
    ) -> PairResult:
        array = self._seen.trace[pair.site.tensor]
        tolerances = self._plan.tolerances
        site = replace(pair.site, shape=tuple(array.shape), dtype=dtype_name(array.dtype))
        base = PairResult(
            site=site,
            twin_site=pair.twin_site,
            status="fail",
            how=pair.how,
            confidence=pair.confidence,
            transform=str(pair.transform),
            order=order,
            born=born.born,
            floor=born.floor,
            ratio=born.ratio,
            limit=born.limit,
            segment=born.segment,
            sample=self._seen.number,
            difference=difference or Difference(),
            used=born.used,
        )
        if problem is not None or difference is None:
            return replace(base, reason=problem, rule="structure")
        if born.status == "not judged":
            automatic = self._plain_rule(base, born)
        else:
            automatic = Judged(born.status, born.reason)
        held = by_tolerance(tolerances, site, difference) if tolerances else automatic
        return replace(
            base,
            status=held.status,
            reason=held.reason,
            rule=held.rule,
            automatic=automatic if tolerances else None,
        )

    def _plain_rule(self, base: PairResult, born: Born) -> Judged:
        """Without layers to evaluate, only outputs are judged, by the size of their difference."""
        if base.site.role != "output":
            return Judged("not judged", born.reason, "")
        if base.difference.nonfinite_mismatch:
            count = base.difference.nonfinite_mismatch
            return Judged("fail", fact("nonfinite.places", count=count), "plain")
        spread = self._plan.observed.spread.get(base.site.tensor, 0.0)
        pair = self._plan.pair(base.site.tensor)
        wrong = plain_difference(*self._seen.tensors(pair), self._plan.units.plain, base.site.op, spread)
        if wrong is not None:
            return Judged("fail", fact("born.visible", what=wrong, why=born.reason), "plain")
        return Judged("pass", born.reason, "plain")
