"""Build the result from judged pairs: outputs end to end, guards, coverage, findings, verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twinnet.job import Arrays
from twinnet.judge import guards
from twinnet.judge.aggregate import evidence_of, findings_of, verdict_of, visible
from twinnet.judge.inputs import OtherInput
from twinnet.judge.metrics import compare
from twinnet.judge.plan import Plan
from twinnet.precision import dtype_class
from twinnet.result import Coverage, Fact, Finding, Guard, PairResult, Result, coded, fact
from twinnet.site import Site
from twinnet.store import dtype_name

__all__ = ["Outcome", "conclude", "null_baseline"]

_FAR = 64.0
"""Times the network's own rounding at an output that no rounding of a twin explains."""


@dataclass(frozen=True)
class Outcome:
    """The judgement of all samples: the worst of every pair, and the outputs of both sides.

    `sample` is the first one, `plain` and `twin_plain` are both sides' unwatched outputs on it; `outputs` are the
    network's on every sample. `inputs` are those that the twin prepares differently, by tensor. `cheap` means that
    one more evaluation of the network in float64 takes about a second.
    """

    pairs: Sequence[PairResult]
    sample: Arrays
    plain: Arrays
    twin_plain: Arrays
    outputs: Sequence[Arrays]
    inputs: Mapping[str, OtherInput] = field(default_factory=dict)
    cheap: bool = True


def conclude(plan: Plan, outcome: Outcome, said: Result) -> Result:
    """Build the result, without causes. `said` holds what is known already: sides, inputs, earlier guards."""
    return _Conclusion(plan, outcome).result(said)


def null_baseline(plan: Plan, outcome: Outcome, result: Result, other: Arrays | None) -> Result:
    """Add the null baseline to a result. `other` are the network's outputs on a different input, if it was run."""
    seen = outcome.outputs
    other = seen[1] if len(seen) > 1 else other
    if other is None:
        return result
    # Judged exactly, site by site: how far the outputs are apart weakens nothing.
    pairs = () if plan.by_network else zip(seen[0], result.outputs, strict=False)
    said = guards.null_baseline(seen[0], other, {n: p.difference.max_abs for n, p in pairs})
    together = (*result.guards, *said)
    return replace(result, guards=together, evidence=evidence_of(result.verdict, together))


@dataclass(frozen=True)
class _Conclusion:
    plan: Plan
    outcome: Outcome

    def result(self, said: Result) -> Result:
        plan, outcome = self.plan, self.outcome
        pairs = list(outcome.pairs)
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
        by_tensor = dict(zip(plan.net.output_tensors, outcome.plain.values(), strict=False))
        judged_outputs = [p for p in pairs if p.site.role == "output"]
        coverage = self._coverage()
        found: list[Guard] = [
            *said.guards,
            *guards.degenerate_data(judged_outputs, by_tensor, len(untested), inner),
            *guards.changed_by_watching(pairs),
            *guards.constant_inputs([outcome.sample]),
            *guards.coverage_guard(coverage),
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
            findings=tuple(self._with_input_cause(f) for f in found_at),
            contributors=self._contributors(),
            tolerance=str(plan.tolerances),
            judged_by="layers" if plan.net.meaning is None else plan.net.meaning.name,
        )

    def _visible(self, pair: PairResult) -> bool:
        """Whether a tensor plainly differs; changes caused by watching do not count."""
        if coded(pair.reason, "watching.changed"):
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

    def _with_input_cause(self, finding: Finding) -> Finding:
        found = self.outcome.inputs.get(finding.site.tensor)
        return finding if found is None else replace(finding, cause=found.cause)

    def _unexplained(self, pairs: list[PairResult], outputs: list[PairResult]) -> list[PairResult]:
        """Outputs that plainly differ although no segment was caught: a slack floor must not hide that.

        A floor is slack behind long segments and whole subgraphs. What the network's own rounding does to an output
        tells whether rounding can have done this. NaN and Inf in other places no rounding explains: a twin may compute
        them rightly from what it has, and have it only because it keeps fewer bits between layers than the network.
        """
        wrong: dict[str, Fact] = {}
        for index, output in enumerate(outputs):
            if reason := self._plainly(output):
                told = fact("output.uncaught", what=reason)
                outputs[index] = replace(output, status="fail", reason=told)
                wrong[output.site.tensor] = reason
        return [
            replace(p, status="fail", rule="plain", reason=wrong[p.site.tensor])
            if p.site.tensor in wrong
            else p
            for p in pairs
        ]

    def _plainly(self, output: PairResult) -> Fact | None:
        """How an output differs, although no segment does; None if rounding may have done it."""
        plan, difference = self.plan, output.difference
        if plan.tolerances or self.outcome.inputs:
            return None
        if difference.nonfinite_mismatch:
            return fact("nonfinite.places", count=difference.nonfinite_mismatch)
        if plan.by_network or plan.units.quantised or output.ratio is None or output.ratio <= _FAR:
            return None
        far = visible(difference, 16 * plan.units.plain, output.site.op)
        return fact("output.plainly") if far else None

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
        for row in self.plan.outputs:
            tensor = row.tensor
            ours, theirs = self.outcome.plain[row.name], self.outcome.twin_plain[row.twin_name]
            judged = by_tensor.get(tensor)
            site = judged.site if judged else Site(tensor, tensor, "output", role="output")
            twin_site = judged.twin_site if judged else Site(row.twin_tensor, role="output")
            base = PairResult(site, twin_site, "pass", rule="end to end")
            if ours.shape != theirs.shape or dtype_class(ours.dtype) != dtype_class(theirs.dtype):
                ours_, theirs_ = ((a.shape, a.dtype.name) for a in (ours, theirs))
                reason = fact("output.form", network=ours_, twin=theirs_)
                found.append(replace(base, status="fail", reason=reason, rule="structure"))
                continue
            difference = compare(ours, theirs)
            number = 0
            if judged is not None and judged.difference.max_abs > difference.max_abs:
                difference, number = judged.difference, judged.sample
            floor = max(
                noise.get(tensor, 0.0), self.plan.units.plain * max(map(abs, difference.range_reference))
            )
            known = tensor in noise and math.isfinite(floor) and floor > 0
            status = judged.status if judged else "pass"
            tolerance = self.plan.tolerances.find(site, dtype_name(ours.dtype))
            if tolerance is not None:
                status = "fail" if tolerance.complaint(difference) else "pass"
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
        graph, net = plan.graph, plan.net
        plainly = any(
            visible(p.difference, 16 * plan.units.plain, p.site.op)
            for p in outcome.pairs
            if p.site.role == "output"
        )
        if graph is None or not (failed or plainly or plan.observed.watched or outcome.cheap):
            return {}
        import torch

        from twinnet.layers import evaluate
        from twinnet.layers.kinds import UnknownLayer
        from twinnet.network.arrays import to_tensor

        sample = outcome.sample
        values = {t: to_tensor(np.asarray(sample[n])) for n, t in net.inputs.items() if n in sample}
        tensors = [t for t in net.output_tensors if t in graph.producer]
        try:
            exact = evaluate(graph, values, keep=tensors)
        except UnknownLayer:
            return {}
        found: dict[str, float] = {}
        for tensor, array in zip(net.output_tensors, outcome.plain.values(), strict=False):
            # Rounding is how far the watched run is from its own layers; an unwatched one may do other things.
            array = plan.observed.watched.get(tensor, array)
            value = exact.get(tensor)
            if (
                value is None
                or not value.is_floating_point()
                or value.shape != array.shape
                or value.numel() == 0
            ):
                continue
            off = (to_tensor(array).to(torch.float64) - value).abs()
            finite = off[off.isfinite()]
            found[tensor] = float(finite.max()) if finite.numel() else 0.0
        return found

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
