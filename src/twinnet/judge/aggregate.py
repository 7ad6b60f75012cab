"""Combine the judgements of single samples into findings and a verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from twinnet.judge.metrics import hull_of
from twinnet.layers.graph import Graph
from twinnet.result import Difference, Finding, Guard, PairResult, Result, Verdict

__all__ = [
    "VISIBLE",
    "absolute_scale",
    "downstream",
    "evidence_of",
    "findings_of",
    "inherited",
    "merge",
    "verdict_of",
    "visible",
    "with_guards",
    "worst_figures",
]

VISIBLE = 1024.0
"""End-to-end differences above this many units of rounding, relative to the tensor's range, are counted as visible."""

_SEVERITY = {"fail": 4, "not judged": 3, "excused": 2, "pass": 1, "untested": 0}


def merge(a: PairResult, b: PairResult) -> PairResult:
    """Merge two samples of one pair, keeping the worse by status, then ratio; tested on one sample is tested."""
    key_a = (_SEVERITY[a.status], a.ratio or 0.0, a.difference.max_abs)
    key_b = (_SEVERITY[b.status], b.ratio or 0.0, b.difference.max_abs)
    kept, other = (b, a) if key_b > key_a else (a, b)
    shown = kept
    if other.difference.max_abs > kept.difference.max_abs and kept.status != "fail":
        shown = other
    # What the segment created is judged on its own: a stated tolerance may single out another sample.
    worse = other if _automatic_key(other) > _automatic_key(kept) else kept
    return replace(
        kept,
        difference=worst_figures(shown.difference, (other if shown is kept else kept).difference),
        sample=shown.sample,
        born=worse.born,
        floor=worse.floor,
        ratio=worse.ratio,
        automatic=worse.automatic,
        used=max((p.used for p in (a, b) if p.used is not None), default=None),
    )


def _automatic_key(pair: PairResult) -> tuple[int, float]:
    status = pair.automatic.status if pair.automatic else pair.status
    return _SEVERITY[status], pair.ratio or 0.0


def worst_figures(shown: Difference, other: Difference) -> Difference:
    """The figures of `shown`, with those that decide tolerances taken from the worse of the two."""
    if shown.elements == 0 or other.elements == 0:
        return shown if shown.elements else other
    ulps = [d.ulp for d in (shown, other) if d.ulp is not None]
    return replace(
        shown,
        hull=hull_of((*shown.hull, *other.hull)),
        ulp=max(ulps) if ulps else None,
        snr=min(shown.snr, other.snr),
        psnr=min(shown.psnr, other.psnr),
        cosine=min(shown.cosine, other.cosine),
        nonfinite_mismatch=max(shown.nonfinite_mismatch, other.nonfinite_mismatch),
    )


_BOUNDED = {"sigmoid", "softmax", "tanh", "erf", "softplus", "logsoftmax", "logsigmoid", "gelu"}
"""Operators whose rounding is absolute, at the scale of 1, however small the result."""


def absolute_scale(op: str) -> float:
    """1 for an operator whose rounding is absolute, at the scale of 1, however small its result; else 0.

    >>> absolute_scale("Softmax"), absolute_scale("conv2d")
    (1.0, 0.0)
    """
    return 1.0 if op.lower().replace("_", "") in _BOUNDED else 0.0


def visible(difference: Difference, unit: float, op: str = "") -> bool:
    """Whether an end-to-end difference exceeds what rounding usually accumulates to."""
    if difference.nonfinite_mismatch:
        return True
    low, high = difference.range_reference
    scale = max(absolute_scale(op), *((abs(low), abs(high), high - low) if low == low else (0.0,)))
    return difference.max_abs > VISIBLE * unit * scale


def downstream(graph: Graph, tensor: str) -> set[str]:
    """All values that depend on `tensor`."""
    found: set[str] = set()
    stack = [tensor]
    while stack:
        for index in graph.consumers.get(stack.pop(), ()):
            for name in graph.layers[index].outputs:
                if name not in found:
                    found.add(name)
                    stack.append(name)
    return found


def inherited(graph: Graph | None, tensor: str, visible_tensors: Sequence[str]) -> int:
    """How many of the visibly different tensors lie downstream of a finding."""
    if graph is None:
        return 0
    below = downstream(graph, tensor)
    return sum(name in below for name in visible_tensors)


def findings_of(
    pairs: Sequence[PairResult], graph: Graph | None, visible_tensors: Sequence[str]
) -> tuple[Finding, ...]:
    """A finding for every pair whose born error exceeds its limit, in network order.

    A stated tolerance decides the verdict, but the born test still decides where: a site that breaks the tolerance
    only by inherited error or by rounding is not a finding.
    """
    failed = any(p.status == "fail" for p in pairs)
    return tuple(
        Finding(
            site=p.site,
            twin_site=p.twin_site,
            error=p.difference.max_abs,
            floor=p.floor or 0.0,
            ratio=p.ratio if p.ratio is not None else float("inf"),
            born=p.born or 0.0,
            segment=p.segment,
            inherited_by=inherited(graph, p.site.tensor, visible_tensors),
            reason=p.reason,
        )
        for p in pairs
        if failed and _creates(p)
    )


def _creates(pair: PairResult) -> bool:
    if pair.rule in ("noise floor", "structure", "plain", "inputs") or pair.ratio is None:
        return pair.status == "fail"
    return pair.ratio > pair.limit


def verdict_of(pairs: Sequence[PairResult], known: Collection[str] = ()) -> Verdict:
    """FAIL if any pair fails that is not among the `known` tensors of a baseline."""
    return "FAIL" if any(p.status == "fail" and p.site.tensor not in known for p in pairs) else "PASS"


def evidence_of(verdict: Verdict, guards: Iterable[Guard]) -> Literal["strong", "weak"]:
    """Weak for a PASS that some guard weakens."""
    return "weak" if verdict == "PASS" and any(g.weakens for g in guards) else "strong"


def with_guards(result: Result, found: Iterable[Guard]) -> Result:
    """The result with more guards, and the evidence that they leave."""
    together = (*result.guards, *found)
    return replace(result, guards=together, evidence=evidence_of(result.verdict, together))
