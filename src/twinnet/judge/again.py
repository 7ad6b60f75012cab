"""Judge a finished run again: other tolerances, or only what is new against a baseline. Nothing is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.judge.aggregate import findings_of, verdict_of
from twinnet.judge.tolerance import Tolerances
from twinnet.result import PairResult, Result, ResultSet

__all__ = ["against_baseline", "judge_again"]

_WORSE = 1.25
"""A known failure may vary by this factor from run to run before it counts as new."""


def judge_again(result: Result, tolerances: Tolerances) -> Result:
    """The same run under other tolerances; without any, under the noise floor again."""
    if result.verdict == "ERROR":
        raise UsageError("this run could not be judged in the first place: its verdict is ERROR")
    pairs = tuple(_again(p, tolerances) for p in result.pairs)
    outputs = tuple(_again(p, tolerances) if p.rule != "structure" else p for p in result.outputs)
    failing = "FAIL" if any(p.status == "fail" for p in outputs) else verdict_of(pairs)
    downstream = {f.site.tensor: f.inherited_by for f in result.findings}
    findings = tuple(replace(f, inherited_by=downstream.get(f.site.tensor, 0)) for f in findings_of(pairs, None, ()))
    weak = failing == "PASS" and any(g.weakens for g in result.guards)
    return replace(
        result,
        verdict=failing,
        pairs=pairs,
        outputs=outputs,
        findings=findings,
        evidence="weak" if weak else "strong",
        tolerance=str(tolerances),
        known=(),
    )


def _again(pair: PairResult, tolerances: Tolerances) -> PairResult:
    if pair.rule == "structure":
        return pair
    tolerance = tolerances.find(pair.site, pair.site.dtype)
    if tolerance is not None:
        complaint = tolerance.complaint(pair.difference)
        return replace(pair, status="fail" if complaint else "pass", reason=complaint, rule=str(tolerance))
    if tolerances:
        return replace(pair, status="not judged", reason="no tolerance is stated for it", rule="")
    if pair.ratio is None:
        return replace(pair, status="not judged", reason=pair.reason or "it was not evaluated", rule="")
    if pair.rule == "end to end":
        return replace(pair, status="pass", reason="")
    status = "fail" if pair.ratio > pair.limit else "pass"
    return replace(pair, status=status, reason="more than rounding can explain" if status == "fail" else "", rule="noise floor")


def against_baseline(result: Result, baseline: str | Path) -> Result:
    """FAIL only for what the baseline run did not show already, or not as badly."""
    before = Result.load(baseline)
    if isinstance(before, ResultSet):
        match = [r for r in before if r.twin.spec == result.twin.spec]
        if not match:
            raise UsageError(f"the baseline {baseline} has no run of twin {result.twin.spec}")
        before = match[0]
    if result.verdict == "ERROR":
        return result
    known_pairs = {p.site.tensor: p for p in before.pairs if p.status == "fail"}
    known = {
        p.site.tensor
        for p in result.pairs
        if p.status == "fail" and p.site.tensor in known_pairs and not _worse(p, known_pairs[p.site.tensor])
    }
    if not known:
        return result
    fresh_outputs = [p for p in result.outputs if p.status == "fail" and p.rule == "structure"]
    verdict = "FAIL" if fresh_outputs else verdict_of(result.pairs, dict.fromkeys(known, 0.0))
    findings = tuple(f for f in result.findings if f.site.tensor not in known)
    return replace(result, verdict=verdict, known=tuple(sorted(known)), findings=findings)


def _worse(now: PairResult, before: PairResult) -> bool:
    if now.ratio is None or before.ratio is None:
        return now.difference.max_abs > _WORSE * before.difference.max_abs
    return now.ratio > _WORSE * before.ratio
