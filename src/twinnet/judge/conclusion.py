"""Build the result from judged pairs: outputs end to end, guards, coverage, findings, verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinnet.job import Arrays
from twinnet.judge import guards, unseen
from twinnet.judge.aggregate import (
    evidence_of,
    findings_of,
    verdict_of,
    visible,
    with_guards,
    worst_figures,
)
from twinnet.judge.deployed import Ends, OutputSeen, bounded_outputs, noise_of
from twinnet.judge.inputs import OtherInput
from twinnet.judge.metrics import compare
from twinnet.judge.plan import Plan
from twinnet.precision import dtype_class
from twinnet.result import Cause, Coverage, Fact, Finding, Guard, PairResult, Result, coded, fact
from twinnet.site import Site
from twinnet.store import dtype_name

__all__ = ["Outcome", "conclude", "null_baseline"]


@dataclass(frozen=True)
class Outcome:
    """What judging all samples gave: the worst of every pair, and of every output as deployed.

    `first` is the first sample end to end; `outputs` are the network's on every sample. `inputs` are those that the
    twin prepares otherwise, by tensor. `cheap` says that one more evaluation of the network in float64 is a matter of a
    second.
    """

    pairs: Sequence[PairResult]
    ends: Sequence[OutputSeen]
    first: Ends
    outputs: Sequence[Arrays]
    inputs: Mapping[str, OtherInput] = field(default_factory=dict)
    cheap: bool = True


def conclude(plan: Plan, outcome: Outcome, said: Result) -> Result:
    """Build the result, without causes. `said` holds what is known already: sides, inputs, earlier guards."""
    return _Conclusion(plan, outcome).result(said)


def null_baseline(plan: Plan, outcome: Outcome, result: Result, moved: Ends | None) -> Result:
    """Add the null baseline to a result. `moved` are both sides on a different input, if that was run."""
    seen = outcome.outputs
    other = seen[1] if len(seen) > 1 else None if moved is None else moved.ours
    if other is None:
        return result
    still = unseen.same_outputs([*seen, *([] if moved is None else [moved.ours])], plan.graph)
    # Judged exactly, site by site: how far the outputs are apart weakens nothing.
    pairs = () if plan.by_network else zip(seen[0], result.outputs, strict=False)
    said = guards.null_baseline(seen[0], other, {n: p.difference.max_abs for n, p in pairs})
    if not said and moved is not None and plan.tolerances:
        theirs = {r.name: moved.theirs[r.twin_name] for r in plan.outputs if r.twin_name in moved.theirs}
        said = guards.does_not_follow(seen[0], moved.ours, theirs)
    return with_guards(result, (*said, *still, *unseen.refused(plan, moved)))


_COARSE, _USUAL = 1 / 12, 1 / 4
"""Values that fill less than the first share of their quantiser's range, where tensors usually fill the second."""


def _too_coarse(pairs: Sequence[PairResult]) -> list[PairResult]:
    """Quantisers whose range is many times what any sample needs fail; dark data that fills no range says nothing."""
    shares = sorted(p.used for p in pairs if p.used is not None)
    if len(shares) < 3 or shares[len(shares) // 2] < _USUAL:
        return list(pairs)
    return [
        replace(p, status="fail", reason=fact("quantisation.coarse", used=p.used))
        if p.used is not None and p.used < _COARSE and p.status in ("pass", "untested")
        else p
        for p in pairs
    ]


@dataclass(frozen=True)
class _Conclusion:
    plan: Plan
    outcome: Outcome

    def result(self, said: Result) -> Result:
        plan, outcome = self.plan, self.outcome
        pairs = _too_coarse(outcome.pairs)
        verdict = verdict_of(pairs)
        # Judged unwatched: the deployed outputs themselves must agree, whatever the tapped run showed.
        outputs = self._outputs(failed=verdict == "FAIL")
        pairs = self._unexplained(pairs, outputs) if verdict == "PASS" else pairs
        pairs = [*self._inputs(), *pairs]
        if any(p.status == "fail" for p in (*outputs, *pairs)):
            verdict = "FAIL"
        visibly = [p for p in pairs if self._visible(p)]
        untested = [p for p in pairs if p.status == "untested" and p.site.role != "output"]
        inner = sum(p.site.role != "output" for p in pairs)
        telling = unseen.most_telling(outcome.outputs)
        by_tensor = {t: telling[n] for n, t in zip(outcome.first.ours, plan.net.output_tensors, strict=False)}
        judged_outputs = [p for p in pairs if p.site.role == "output"]
        coverage = self._coverage()
        found: list[Guard] = [
            *said.guards,
            *guards.other_outputs(plan.net, plan.twin, plan.outputs, outcome.first),
            *guards.degenerate_data(judged_outputs, by_tensor, len(untested), inner),
            *guards.untested_parts(outcome.ends, {p.site.tensor: p for p in pairs}, bounded_outputs(plan)),
            *guards.changed_by_watching(pairs),
            *guards.constant_inputs([outcome.first.sample]),
            *guards.coverage_guard(coverage),
            *self._far(outputs, pairs),
            *(self._reread() if verdict == "PASS" else ()),
            *(self._unseen() if verdict == "PASS" else ()),
            *plan.tolerances.idle([p.site for p in (*pairs, *outputs)]),
        ]
        found_at = findings_of(pairs, plan.lineage, [p.site.tensor for p in visibly])
        return replace(
            said,
            verdict=verdict,
            coverage=coverage,
            guards=tuple(found),
            evidence=evidence_of(verdict, found),
            outputs=tuple(outputs),
            pairs=tuple(pairs),
            failing=len(visibly),
            first_failing=visibly[0].site if visibly else None,
            findings=tuple(self._with_cause(f) for f in found_at),
            contributors=self._contributors(),
            tolerance=str(plan.tolerances),
            judged_by="layers" if plan.net.meaning is None else plan.net.meaning.name,
        )

    def _reread(self) -> list[Guard]:
        """What a quantised twin that passes reads otherwise than it writes; a finding says it by itself."""
        if not self.plan.units.quantised:
            return []
        from twinnet.judge.born import BornTest

        test = self.plan.test
        declared = test.declared if isinstance(test, BornTest) else None
        return [] if declared is None else guards.read_otherwise(declared.all_reread)

    def _unseen(self) -> list[Guard]:
        """What agreed only as far as this data and this precision could tell."""
        plan, ends, first = self.plan, self.outcome.ends, self.outcome.first
        return [
            *unseen.without_numbers(ends, unseen.most_telling(self.outcome.outputs)),
            *unseen.coarser_than_network(plan, ends, first),
        ]

    def _far(self, outputs: list[PairResult], pairs: list[PairResult]) -> list[Guard]:
        if self.plan.tolerances or self.plan.net.meaning is not None:
            return []
        return guards.far_unseen(outputs, {p.site.tensor: p for p in pairs})

    def _visible(self, pair: PairResult) -> bool:
        """Whether a tensor plainly differs; changes caused by watching do not count."""
        if coded(pair.reason, "watching.changed", "watching.apart"):
            return False
        return visible(pair.difference, self.plan.units.plain, pair.site.op)

    def _inputs(self) -> list[PairResult]:
        """Inputs that the twin prepared differently, as failing pairs."""
        found = []
        for tensor, other in self.outcome.inputs.items():
            name, ours, theirs = other.name, other.ours, other.theirs
            same = ours.shape == theirs.shape and dtype_class(ours.dtype) == dtype_class(theirs.dtype)
            site = Site(tensor, name, "input", shape=tuple(ours.shape), dtype=dtype_name(ours.dtype))
            base = PairResult(
                site, Site(name, name, "input"), "fail", "input", rule="inputs", reason=other.reason
            )
            if same:
                difference = compare(ours, theirs)
                base = replace(
                    base, difference=difference, born=difference.max_abs, ratio=math.inf, floor=0.0
                )
            found.append(base)
        return found

    def _with_cause(self, finding: Finding) -> Finding:
        """Causes that need no search: another input, and steps that are too large."""
        found, reason = self.outcome.inputs.get(finding.site.tensor), finding.reason
        if reason is not None and coded(reason, "quantisation.coarse", "quantisation.coarse_weights"):
            return replace(finding, cause=Cause("quantisation", reason, 1.0))
        return finding if found is None else replace(finding, cause=found.cause)

    def _unexplained(self, pairs: list[PairResult], outputs: list[PairResult]) -> list[PairResult]:
        """Outputs that plainly differ although no segment was caught: neither a slack floor nor watching hides that."""
        if self.plan.tolerances or self.outcome.inputs:
            return pairs
        wrong: dict[str, Fact] = {}
        for index, (output, seen) in enumerate(zip(outputs, self.outcome.ends, strict=True)):
            if seen.wrong is not None:
                told = fact("output.uncaught", what=seen.wrong)
                outputs[index] = replace(output, status="fail", reason=told)
                wrong[output.site.tensor] = seen.wrong
        return [
            replace(p, status="fail", rule="plain", reason=wrong[p.site.tensor])
            if p.site.tensor in wrong
            else p
            for p in pairs
        ]

    def _contributors(self) -> tuple[Finding, ...]:
        """Contributors that the network's own meaning names; others are ranked by impact, with blame."""
        meaning = self.plan.net.meaning
        return tuple(
            Finding(p.site, p.twin_site, p.difference.max_abs, p.floor or 0.0, p.ratio or 0.0, p.born or 0.0)
            for p in (() if meaning is None else meaning.contributors(self.outcome.pairs))
        )

    def _outputs(self, *, failed: bool) -> list[PairResult]:
        """Compare the deployed outputs end to end, with the effect of float rounding alone where that is affordable."""
        by_tensor = {p.site.tensor: p for p in self.outcome.pairs}
        noise = self._noise(failed=failed)
        found: list[PairResult] = []
        for seen in self.outcome.ends:
            row, tensor = seen.row, seen.row.tensor
            judged = by_tensor.get(tensor)
            site = judged.site if judged else Site(tensor, tensor, "output", role="output", output=row.name)
            twin_site = judged.twin_site if judged else Site(row.twin_tensor, role="output")
            base = PairResult(site, twin_site, "pass", rule="end to end")
            if seen.form is not None:
                found.append(replace(base, status="fail", reason=seen.form, rule="structure"))
                continue
            difference, number = seen.difference, seen.number
            if judged is not None and judged.difference.max_abs > difference.max_abs:
                difference, number = worst_figures(judged.difference, difference), judged.sample
            floor = max(
                noise.get(tensor, 0.0), self.plan.units.plain * max(map(abs, difference.range_reference))
            )
            known = tensor in noise and math.isfinite(floor) and floor > 0
            status = judged.status if judged else "pass"
            rule = self.plan.tolerances.find(site, dtype_name(self.outcome.first.ours[row.name].dtype))
            if rule is not None:
                status = "fail" if rule.tolerance.complaint(difference, tensor) else "pass"
            found.append(
                replace(
                    base,
                    status=status,
                    floor=floor if known else None,
                    ratio=difference.max_abs / floor if known else None,
                    difference=difference,
                    sample=number,
                    reason=judged.reason if judged else None,
                )
            )
        return found

    def _noise(self, *, failed: bool) -> dict[str, float]:
        """How far the network in its own precision is from itself in float64, at each output."""
        plan, outcome = self.plan, self.outcome
        plainly = any(
            visible(p.difference, 16 * plan.units.plain, p.site.op)
            for p in outcome.pairs
            if p.site.role == "output"
        )
        if not (failed or plainly or plan.observed.watched or outcome.cheap):
            return {}
        return {tensor: float(noise.max()) for tensor, noise in noise_of(plan, outcome.first).items()}

    def _coverage(self) -> Coverage:
        pairs, pairing = self.outcome.pairs, self.plan.pairing
        judged = sum(p.status in ("pass", "fail", "excused") for p in pairs)
        note = None
        if self.plan.graph is None and not self.plan.by_network:
            note = fact("coverage.no_layers")
        else:
            longest = max((len(p.segment) for p in pairs), default=0)
            unknown = [
                p
                for p in pairs
                if p.status == "not judged" and p.reason is not None and not self.plan.tolerances
            ]
            if unknown:
                note = fact("coverage.not_judged", pairs=len(unknown), why=unknown[0].reason)
            elif longest > 40:
                note = fact("coverage.long_segment", layers=longest)
        return Coverage(
            sites=len(pairing.sites),
            paired=len(pairing.pairs),
            twin_sites=len(pairing.twin_sites),
            judged=judged,
            unmatched=tuple(s.tensor for s in pairing.unmatched),
            unmatched_twin=tuple(s.tensor for s in pairing.unmatched_twin),
            note=note,
        )
