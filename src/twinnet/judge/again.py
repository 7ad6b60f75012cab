"""Judge a finished run again, by other tolerances or against a baseline. Nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.judge.aggregate import evidence_of, findings_of, verdict_of
from twinnet.judge.tolerance import Tolerances, by_tolerance
from twinnet.result import Fact, Finding, Judged, PairResult, Result, ResultSet, StagedResult, Step

__all__ = ["against_baseline", "judge_again", "known_tensors", "restated", "stages_again"]

_WORSE = 1.25
"""A known failure may vary by this factor from run to run before it counts as new."""

_SAME = 0.02
"""Figures of one failure are this close from run to run, if its worst channel is another."""

_SAME_VALUE = 0.25
"""A value of the twin that was measured may be off by this share of its distance from the network's."""


def judge_again(result: Result, tolerances: Tolerances) -> Result:
    """Judge the run by these tolerances, or by the noise floor if there are none."""
    if result.verdict == "ERROR":
        raise UsageError("this run cannot be judged again: its verdict is ERROR")
    pairs = tuple(restated(p, tolerances) for p in result.pairs)
    judged = {p.site.tensor: p for p in pairs}
    outputs = tuple(_output(p, judged.get(p.site.tensor), tolerances) for p in result.outputs)
    failing = "FAIL" if any(p.status == "fail" for p in outputs) else verdict_of(pairs)
    # What was found out about a finding (cause, impact, what inherits it) still holds.
    known = {f.site.tensor: f for f in (*result.findings, *result.known_findings)}
    found = findings_of(pairs, None, ())
    failing_sites = {f.site.tensor for f in found}
    tied = {s.tensor for f in known.values() if f.site.tensor in failing_sites for s in f.also}
    findings = tuple(
        _restated_finding(known.get(f.site.tensor, f), f.reason) for f in found if f.site.tensor not in tied
    )
    others = (g for g in result.guards if g.fact.code not in ("tolerance.unused", "tolerance.outputs"))
    guards = (*others, *tolerances.idle([p.site for p in (*pairs, *outputs)]))
    counted = sum(p.status in ("pass", "fail", "excused") for p in pairs)
    return replace(
        result,
        verdict=failing,
        pairs=pairs,
        outputs=outputs,
        findings=findings,
        coverage=replace(result.coverage, judged=counted),
        guards=guards,
        evidence=evidence_of(failing, guards),
        tolerance=str(tolerances),
        known=(),
        known_findings=(),
    )


def _restated_finding(finding: Finding, reason: Fact | None) -> Finding:
    """The finding with the rule that it breaks as its reason, or without a rule that is no longer stated."""
    by_rule = any(r is not None and r.code.startswith("tolerance.") for r in (finding.reason, reason))
    return replace(finding, reason=reason) if by_rule else finding


def stages_again(staged: StagedResult, again: Callable[[Result], Result]) -> StagedResult:
    """Judge every step of a followed network again whose result was kept."""
    results = tuple(again(result) for result in staged.results)

    def step(old: Step | None) -> Step | None:
        return old if old is None or old.result is None else replace(old, verdict=results[old.result].verdict)

    stages = tuple(replace(s, before=step(s.before), network=step(s.network)) for s in staged.stages)
    return replace(staged, results=results, stages=stages)


def restated(pair: PairResult, tolerances: Tolerances) -> PairResult:
    """Judge one pair by these tolerances from its recorded figures, or by the noise floor if there are none."""
    if pair.rule in ("structure", "inputs"):
        return pair
    automatic = pair.automatic or Judged(pair.status, pair.reason, pair.rule)
    if not tolerances:
        return replace(
            pair, status=automatic.status, reason=automatic.reason, rule=automatic.rule, automatic=None
        )
    stated = by_tolerance(tolerances, pair.site, pair.difference)
    return replace(pair, status=stated.status, reason=stated.reason, rule=stated.rule, automatic=automatic)


def _output(output: PairResult, judged: PairResult | None, tolerances: Tolerances) -> PairResult:
    if output.rule == "structure":
        return output
    stated = tolerances.find(output.site, output.site.dtype)
    status = judged.status if judged else "pass"
    if stated is not None:
        status = "fail" if stated.tolerance.complaint(output.difference, output.site.tensor) else "pass"
    return replace(output, status=status, reason=judged.reason if judged else None)


def against_baseline(result: Result, baseline: str | Path) -> Result:
    """Drop failures that the baseline run already has, unless they got worse."""
    before = Result.load(baseline)
    if isinstance(before, ResultSet):
        match = [r for r in before if r.twin.spec == result.twin.spec]
        if not match:
            raise UsageError(f"the baseline {baseline} has no run of twin {result.twin.spec}")
        before = match[0]
    if result.verdict == "ERROR":
        return result
    _require_same(result, before, baseline)
    known_pairs = {p.site.tensor: p for p in before.pairs if p.status == "fail"}
    causes, old_causes = ({f.site.tensor: f.cause for f in r.findings} for r in (result, before))

    def is_known(pair: PairResult) -> bool:
        tensor = pair.site.tensor
        if pair.status != "fail" or tensor not in known_pairs:
            return False
        now, then = causes.get(tensor), old_causes.get(tensor)
        same = now is None or then is None or (now.kind == then.kind and _same_claim(now.fact, then.fact))
        return same and not _worse(pair, known_pairs[tensor])

    known = {p.site.tensor for p in result.pairs if is_known(p)}
    if not known:
        return result
    fresh_outputs = [p for p in result.outputs if p.status == "fail" and p.rule == "structure"]
    verdict = "FAIL" if fresh_outputs else verdict_of(result.pairs, known)
    old, new = ([f for f in result.findings if (f.site.tensor in known) is w] for w in (True, False))
    return replace(
        result,
        verdict=verdict,
        known=tuple(sorted(known)),
        findings=tuple(new),
        known_findings=tuple(old),
    )


def _same_claim(now: Fact, then: Fact) -> bool:
    """Whether two causes say the same of the twin; numbers that were measured may differ by what data makes of them."""
    if now.code != then.code:
        return False
    values = zip(
        _several(now.twin_value), _several(then.twin_value), _several(then.network_value), strict=False
    )
    return all(_alike(a, b, own) for a, b, own in values)


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _alike(now: Any, then: Any, own: Any) -> bool:
    """Two values of the twin: equal, or floats that are apart by little of what the known one is from the network's."""
    if not (isinstance(now, float) and isinstance(then, float | int)):
        return bool(now == then)
    own = own if isinstance(own, float | int) else 0.0
    return now == then or abs(now - then) <= _SAME_VALUE * abs(then - own)


def known_tensors(baseline: str | Path) -> frozenset[str]:
    """The tensors that fail in the baseline run, for any twin."""
    before = Result.load(baseline)
    runs = before.results if isinstance(before, ResultSet) else (before,)
    return frozenset(p.site.tensor for run in runs for p in run.pairs if p.status == "fail")


def _require_same(result: Result, before: Result, baseline: str | Path) -> None:
    """Refuse the baseline of another network: its sites may have the same names by chance."""
    ours, theirs = ({p.site.tensor for p in r.pairs} for r in (result, before))
    counts = result.network.parameters, before.network.parameters
    shared = len(ours & theirs) / max(len(ours | theirs), 1)
    if (None not in counts and counts[0] != counts[1]) or (ours and theirs and shared < 0.5):
        raise UsageError(
            f"the baseline {baseline} is of another network: {before.network.name}, "
            f"{counts[1]} parameters (this one: {result.network.name}, {counts[0]})",
            hint="give the run folder of an earlier check of the same network and twin",
        )


def _worse(now: PairResult, before: PairResult) -> bool:
    """Whether a failure is worse than the known one: larger, in more elements, or in others."""
    new, old = now.difference, before.difference
    if new.nonfinite_mismatch > old.nonfinite_mismatch:
        return True
    if new.ulp is None and new.differing > old.differing:  # integers and flags
        return True
    figures = [(new.max_abs, old.max_abs), (new.mean_abs, old.mean_abs)]
    if now.ratio is not None and before.ratio is not None:
        figures.append((now.ratio, before.ratio))
    if any(a > _WORSE * b for a, b in figures):
        return True
    moved = new.channel != old.channel
    return moved and any(abs(a - b) > _SAME * max(a, b) for a, b in figures if max(a, b) < float("inf"))
