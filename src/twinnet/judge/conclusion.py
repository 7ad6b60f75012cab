"""From judged pairs to the answer: outputs end to end, guards, coverage, findings, verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines.base import Session
from twinnet.judge import guards
from twinnet.judge.aggregate import findings_of, verdict_of, visible, with_merged, with_tied
from twinnet.judge.metrics import compare
from twinnet.judge.sides import dims
from twinnet.judge.task import mean_metric
from twinnet.judge.verdicts import CHANGED
from twinnet.layers.graph import Graph
from twinnet.pairing import Pairing
from twinnet.precision import dtype_class
from twinnet.result import Coverage, Finding, Guard, PairResult, Result, SideInfo
from twinnet.site import Site
from twinnet.store import dtype_name

if TYPE_CHECKING:
    from twinnet.judge.judgement import Judgement

__all__ = ["Conclusion"]

_FAR = 64.0
"""Times the network's own rounding at an output that no rounding of a twin explains."""


@dataclass(frozen=True)
class Conclusion:
    """What a check says, from everything it saw. `seen` are the network's outputs on each sample."""

    check: Judgement
    net: Session
    twin: Session
    graph: Graph | None
    pairing: Pairing
    pairs: list[PairResult]
    plain: Mapping[str, np.ndarray]
    twin_plain: Mapping[str, np.ndarray]
    seen: Sequence[Mapping[str, np.ndarray]]

    def result(self, found: list[Guard]) -> Result:
        """The answer; `found` are the guards that spoke before."""
        check, net, pairs, plain = self.check, self.net, self.pairs, self.plain
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
        by_tensor = dict(zip(net.output_tensors, plain.values(), strict=False))
        judged_outputs = [p for p in pairs if p.site.role == "output"]
        found += guards.degenerate_data(judged_outputs, by_tensor, len(untested), inner)
        if verdict == "PASS":
            found += self._baseline(outputs)
        found += guards.changed_by_watching(pairs)
        found += guards.constant_inputs([check.first])
        found += self._training_mode()
        coverage = self._coverage()
        found += guards.coverage_guard(coverage)
        weak = verdict == "PASS" and any(g.weakens for g in found)
        first = visibly[0].site if visibly else None
        return Result(
            verdict=verdict,
            network=check.sides.network_info(),
            twin=self._twin_info(),
            inputs=check.feed.info,
            coverage=coverage,
            guards=tuple(found),
            evidence="weak" if weak else "strong",
            outputs=tuple(outputs),
            pairs=tuple(pairs),
            failing=len(visibly),
            first_failing=first,
            findings=self._with_causes(
                findings_of(pairs, self.check.lineage, [p.site.tensor for p in visibly])
            ),
            contributors=self._contributors(),
            advice=check.keeper.advice,
            metrics=mean_metric(check.scores),
            tolerance=str(check.tolerances),
            judged_by="layers" if net.meaning is None else net.meaning.name,
            timings=dict(check.timings),
        )

    def _visible(self, pair: PairResult) -> bool:
        """Whether a tensor plainly differs; what only watching does to it is no difference."""
        if pair.reason.startswith(CHANGED):
            return False
        return visible(pair.difference, self.check.plain_unit, pair.site.op)

    def _inputs(self) -> list[PairResult]:
        """Inputs that the twin prepared otherwise, as pairs that fail."""
        found = []
        for tensor, (name, ours, theirs, _, reason) in self.check.inputs_found.items():
            same = ours.shape == theirs.shape and dtype_class(ours.dtype) == dtype_class(theirs.dtype)
            site = Site(tensor, name, "input", shape=tuple(ours.shape), dtype=dtype_name(ours.dtype))
            base = PairResult(site, Site(name, name, "input"), "fail", "input", rule="inputs", reason=reason)
            if same:
                difference = compare(ours, theirs)
                base = replace(
                    base, difference=difference, born=difference.max_abs, ratio=math.inf, floor=0.0
                )
            found.append(base)
        return found

    def _with_input_cause(self, finding: Finding) -> Finding:
        found = self.check.inputs_found.get(finding.site.tensor)
        return finding if found is None else replace(finding, cause=found[3])

    def _twin_info(self) -> SideInfo:
        info = self.check.sides.twin_info()
        return replace(info, precision="int8") if self.check.quantised else info

    def _unexplained(self, pairs: list[PairResult], outputs: list[PairResult]) -> list[PairResult]:
        """Outputs that plainly differ although no segment was caught: a slack floor must not hide that.

        A floor is slack behind long segments and whole subgraphs. What the network's own rounding does to an output
        tells whether rounding can have done this. NaN and Inf in other places no rounding explains: a twin may compute
        them rightly from what it has, and have it only because it keeps fewer bits between layers than the network.
        """
        wrong: dict[str, str] = {}
        for index, output in enumerate(outputs):
            if reason := self._plainly(output):
                told = f"{reason}, though no segment could be caught creating it"
                outputs[index] = replace(output, status="fail", reason=told)
                wrong[output.site.tensor] = reason
        return [
            replace(p, status="fail", rule="plain", reason=wrong[p.site.tensor])
            if p.site.tensor in wrong
            else p
            for p in pairs
        ]

    def _plainly(self, output: PairResult) -> str:
        """How an output differs, although no segment does; empty if rounding may have done it."""
        check, difference = self.check, output.difference
        if check.tolerances or check.inputs_found:
            return ""
        if difference.nonfinite_mismatch:
            count = f"{difference.nonfinite_mismatch} elements"
            return f"NaN or Inf in other places than in the network ({count})"
        if check.by_network or check.quantised or output.ratio is None or output.ratio <= _FAR:
            return ""
        far = visible(difference, 16 * check.plain_unit, output.site.op)
        return "plainly different" if far else ""

    def _contributors(self) -> tuple[Finding, ...]:
        """Where the twin differs within its budget, by impact, or as the network's own meaning ranks it."""
        if self.net.meaning is None:
            return self._ranked()
        return tuple(
            Finding(p.site, p.twin_site, p.difference.max_abs, p.floor or 0.0, p.ratio or 0.0, p.born or 0.0)
            for p in self.net.meaning.contributors(self.pairs)
        )

    def _ranked(self) -> tuple[Finding, ...]:
        by_tensor = {p.site.tensor: p for p in self.pairs if p.status in ("pass", "untested")}
        ranked = self.check.keeper.ranked
        return tuple(
            ranked[tensor].on(
                Finding(
                    p.site,
                    p.twin_site,
                    p.difference.max_abs,
                    p.floor or 0.0,
                    p.ratio or 0.0,
                    p.born or 0.0,
                    segment=p.segment,
                )
            )
            for tensor in ranked
            if (p := by_tensor.get(tensor)) is not None
        )

    def _with_causes(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        keeper = self.check.keeper
        blamed = keeper.blamed
        known = [blamed[f.site.tensor].on(f) if f.site.tensor in blamed else f for f in findings]
        known = [self._with_input_cause(f) for f in known]
        return tuple(with_merged(with_tied(known, keeper.tied), keeper.together, self.pairs))

    def _outputs(self, *, failed: bool) -> list[PairResult]:
        """The deployed outputs end to end, with what float rounding alone does to them where that is affordable."""
        by_tensor = {p.site.tensor: p for p in self.pairs}
        noise = self._noise(failed=failed)
        found: list[PairResult] = []
        for row in self.check.aligned:
            tensor, ours, theirs = row.tensor, self.plain[row.name], self.twin_plain[row.twin_name]
            judged = by_tensor.get(tensor)
            site = judged.site if judged else Site(tensor, tensor, "output", role="output")
            twin_site = judged.twin_site if judged else Site(row.twin_tensor, role="output")
            base = PairResult(site, twin_site, "pass", rule="end to end")
            if ours.shape != theirs.shape or dtype_class(ours.dtype) != dtype_class(theirs.dtype):
                has = f"{dims(ours.shape)} {ours.dtype.name}"
                reason = f"{dims(theirs.shape)} {theirs.dtype.name} where the network has {has}"
                found.append(replace(base, status="fail", reason=reason, rule="structure"))
                continue
            difference = compare(ours, theirs)
            number = 0
            if judged is not None and judged.difference.max_abs > difference.max_abs:
                difference, number = judged.difference, judged.sample
            floor = max(
                noise.get(tensor, 0.0), self.check.plain_unit * max(map(abs, difference.range_reference))
            )
            known = tensor in noise and math.isfinite(floor) and floor > 0
            status = judged.status if judged else "pass"
            tolerance = self.check.tolerances.find(site, dtype_name(ours.dtype))
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
                    reason=judged.reason if judged else "",
                )
            )
        return found

    def _noise(self, *, failed: bool) -> dict[str, float]:
        """How far the network in its own precision is from itself in float64, at each output."""
        graph, net, check = self.graph, self.net, self.check
        plainly = any(
            visible(p.difference, 16 * check.plain_unit, p.site.op)
            for p in self.pairs
            if p.site.role == "output"
        )
        if graph is None or not (failed or plainly or check.watched or self._cheap()):
            return {}
        import torch

        from twinnet.layers import evaluate
        from twinnet.layers.kinds import UnknownLayer
        from twinnet.network.arrays import to_tensor

        check.settings.progress("measuring the network's own rounding", None)
        sample = check.first
        values = {t: to_tensor(np.asarray(sample[n])) for n, t in net.inputs.items() if n in sample}
        tensors = [t for t in net.output_tensors if t in graph.producer]
        try:
            with check.job.step("judge"):
                exact = evaluate(graph, values, keep=tensors)
        except UnknownLayer:
            return {}
        found: dict[str, float] = {}
        for tensor, array in zip(net.output_tensors, self.plain.values(), strict=False):
            # Rounding is how far the watched run is from its own layers; an unwatched one may do other things.
            array = check.watched.get(tensor, array)
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

    def _cheap(self) -> bool:
        """Whether another evaluation of the network in float64 is a matter of a second."""
        return self.check.timings.get("judge", 0.0) < max(len(self.check.feed.samples), 1)

    def _baseline(self, outputs: Sequence[PairResult]) -> list[Guard]:
        seen, net, check = self.seen, self.net, self.check
        differences = {n: p.difference.max_abs for n, p in zip(seen[0], outputs, strict=False)}
        if check.by_network:  # judged exactly, site by site: how far the outputs are apart weakens nothing
            differences = {}
        if len(seen) > 1:
            other = seen[1]
        elif net.live:
            changed = guards.shuffled(check.first, check.settings.seed)
            if not changed:
                return []
            other = net.run(changed)
        else:
            return []
        return guards.null_baseline(seen[0], other, differences)

    def _training_mode(self) -> list[Guard]:
        if getattr(self.check.network, "was_training", False):
            return [
                Guard("training mode", "the module was in training mode; it was set to eval for the check")
            ]
        return []

    def _coverage(self) -> Coverage:
        pairs, pairing = self.pairs, self.pairing
        judged = sum(p.status in ("pass", "fail", "excused") for p in pairs)
        note = ""
        if self.graph is None and not self.check.by_network:
            note = (
                "the network's layers are not known: only outputs are judged, by the size of the difference"
            )
        else:
            longest = max((len(p.segment) for p in pairs), default=0)
            unknown = [
                p for p in pairs if p.status == "not judged" and p.reason and not self.check.tolerances
            ]
            if unknown:
                note = f"{len(unknown)} pairs could not be judged: {unknown[0].reason}"
            elif longest > 40:
                note = (
                    f"the longest segment judged as one has {longest} layers: small faults inside it can hide"
                )
        return Coverage(
            sites=len(pairing.sites),
            paired=len(pairing.pairs),
            twin_sites=len(pairing.twin_sites),
            judged=judged,
            unmatched=tuple(s.tensor for s in pairing.unmatched),
            unmatched_twin=tuple(s.tensor for s in pairing.unmatched_twin),
            note=note,
        )
