"""Collects cause and impact of failing pairs sample by sample, before the tensors are freed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines.meaning import OwnJudge
from twinnet.errors import UsageError
from twinnet.judge.aggregate import VISIBLE, visible
from twinnet.result import Advice, Fact, Finding, Guard, PairResult, Result, coded, fact

if TYPE_CHECKING:
    from twinnet.blame.advise import Adviser
    from twinnet.blame.confirm import Confirmer
    from twinnet.blame.context import Blame, Context
    from twinnet.blame.groups import Group, Tied
    from twinnet.job import Job
    from twinnet.judge.plan import Plan
    from twinnet.judge.sample import Seen
    from twinnet.pairing import Pair

__all__ = ["Blamed", "Blamer", "context_of"]

_BLAMED = 8
"""Findings whose cause is looked for whatever it takes."""
_LOOKING = 10.0
"""Seconds after which the cause of no further finding is looked for."""
_RANKED = 16
_RANKING = 30.0
"""Seconds after which no further sample is ranked."""
_SAYS_SOMETHING = 8.0
_ADVISED = 64


@dataclass(frozen=True)
class Blamed:
    """What blame found, by network tensor.

    `causes` belong to findings, `ranked` to contributors. `tied` are groups of findings with one fault, `together` the
    segments that only together explain the output error, `notes` what was skipped. `unsought` are findings whose cause
    nobody looked for.
    """

    causes: Mapping[str, Blame] = field(default_factory=dict)
    unsought: frozenset[str] = frozenset()
    ranked: Mapping[str, Blame] = field(default_factory=dict)
    tied: Sequence[Tied] = ()
    together: Group | None = None
    advice: Advice | None = None
    notes: tuple[Fact, ...] = ()

    def on(self, result: Result) -> Result:
        """The result with causes, contributors and advice added."""
        findings = [
            self.causes[f.site.tensor].on(f) if f.site.tensor in self.causes else f for f in result.findings
        ]
        findings = [
            replace(f, reason=fact("cause.unsought", looked=len(self.causes)))
            if f.site.tensor in self.unsought and coded(f.reason, "born.too_large")
            else f
            for f in findings
        ]
        unsought = sum(f.site.tensor in self.unsought for f in findings)
        notes = self.notes
        if unsought:
            notes = (*notes, fact("note.unsought", findings=unsought, looked=len(self.causes)))
        findings = _with_merged(_with_tied(findings, self.tied), self.together, result.pairs)
        return replace(
            result,
            findings=tuple(findings),
            contributors=(*result.contributors, *self._contributors(result.pairs)),
            advice=self.advice,
            guards=(*result.guards, *(Guard("note", n) for n in notes)),
        )

    def _contributors(self, pairs: Sequence[PairResult]) -> tuple[Finding, ...]:
        """Where the twin differs within its budget, by impact."""
        within = {p.site.tensor: p for p in pairs if p.status in ("pass", "untested")}
        return tuple(
            blame.on(
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
            for tensor, blame in self.ranked.items()
            if (p := within.get(tensor)) is not None
        )


def _with_tied(findings: Sequence[Finding], groups: Sequence[Tied]) -> list[Finding]:
    """Merge the findings of one fault into one that names all places and why they belong together."""
    known = {f.site.tensor: f for f in findings}
    whole = [group for group in groups if all(t in known for t in group.tensors)]
    leader = {t: group.tensors[0] for group in whole for t in group.tensors}
    ties = {group.tensors[0]: group.why for group in whole}
    merged: list[Finding] = []
    for finding in findings:
        tensor = finding.site.tensor
        first = leader.get(tensor, tensor)
        if first != tensor:
            continue
        others = [known[t] for t, at in leader.items() if at == tensor and t != tensor]
        if others:
            reach = max([finding.inherited_by, *(f.inherited_by for f in others)])
            finding = replace(
                finding, also=tuple(f.site for f in others), tie=ties[tensor], inherited_by=reach
            )
        merged.append(finding)
    return merged


def _with_merged(
    findings: Sequence[Finding], group: Group | None, pairs: Sequence[PairResult]
) -> list[Finding]:
    """Add to the first finding the segments that only together with it explain the output error."""
    if group is None or not findings:
        return list(findings)
    labels = {p.site.tensor: p.site.label for p in pairs}
    names = tuple(labels[t] for t in group.tensors if t in labels)
    return [replace(findings[0], merged=names, explained=group.explains), *findings[1:]]


class Blamer:
    """Collects over the samples of one check; a worse sample replaces an earlier one.

    `adviser` makes an `Adviser` from a sample's context; if given, segments worth keeping in float are looked for as
    well. `target` and `out` are as in `Adviser.advise`.
    """

    def __init__(
        self,
        plan: Plan,
        job: Job,
        adviser: Callable[[Context], Adviser] | None = None,
        *,
        target: float | None = None,
        out: str | None = None,
    ) -> None:
        self._plan = plan
        self._job = job
        self._adviser = adviser
        self._target, self._out = target, out
        self._found = Blamed()
        self._merged = False
        self._confirmer: Confirmer | None = None
        self._rank_samples, self._rank_seconds = 0, 0.0
        self._seconds = 0.0

    @property
    def blamed(self) -> Blamed:
        """What was found so far."""
        return self._found

    def add(self, seen: Seen, judged: Sequence[PairResult], *, hidden: bool = False) -> None:
        """Look into what one judged sample shows; `hidden`: an output is wrong though no segment was caught."""
        self._blame(seen, judged, hidden=hidden)
        if self._plan.units.narrow or self._adviser is not None:
            self._rank(seen, judged)
        if self._adviser is not None:
            # Advice takes all samples into account, but whether it is possible is known from the first.
            context = context_of(self._plan, seen)
            if context is None:
                raise UsageError(
                    "no advice can be given for this twin",
                    hint="--advise needs a network whose layers are known, and a twin whose tensors can be seen",
                )
            adviser = self._adviser(context)
            adviser.refuse(self._out)
            if seen.number == len(self._job.samples) - 1:
                self._advise(adviser)

    def _blame(self, seen: Seen, judged: Sequence[PairResult], *, hidden: bool) -> None:
        """Cause and impact of the first findings, while the tensors of the sample that shows them are at hand."""
        narrow = self._plan.units.narrow
        failed = [p for p in judged if p.status == "fail" and p.rule in ("noise floor", "structure")]
        known = dict(self._found.causes)
        worse = [
            p for p in failed if p.site.tensor not in known or (p.ratio or 0.0) > known[p.site.tensor].ratio
        ]
        again = [p for p in failed if p.site.tensor in known]
        unclear = hidden and not failed and not narrow and not self._plan.tolerances
        if not (worse or again or unclear) or (context := context_of(self._plan, seen)) is None:
            return
        from twinnet.blame.groups import merge_until_explained, tied

        self._job.progress("looking for the cause")
        by_tensor = {p.site.tensor: p for p in self._plan.pairing.pairs}
        together = self._found.together
        found = self._sought([(by_tensor[p.site.tensor], p.ratio or 0.0) for p in worse], context, seen)
        with self._job.step("blame", ours=True):
            doubts = self._doubts([p.site.tensor for p in again], found, context, seen.number)
            known.update(found)
            for tensor, why in doubts.items():
                known[tensor] = replace(known[tensor], cause=None, reason=why, patch=None, candidate=None)
            tensors = [p.site.tensor for p in failed]
            one = tied(tensors, context, known) or self._found.tied
            # A share of an output error that is mere rounding means nothing.
            if not self._merged and self._off(judged, 0.25 if narrow else _SAYS_SOMETHING):
                self._merged = True
                within = [p for p in judged if p.status in ("pass", "untested") and p.difference.differing]
                rest = [(by_tensor[p.site.tensor], p.ratio or 0.0) for p in within]
                together = merge_until_explained(tensors, rest, context, known)
        unsought = (self._found.unsought | {p.site.tensor for p in worse}) - known.keys()
        self._found = replace(self._found, causes=known, unsought=unsought, tied=one, together=together)

    def _sought(self, asked: Sequence[tuple[Pair, float]], context: Context, seen: Seen) -> dict[str, Blame]:
        """Cause, impact and confirmation of failing pairs: of the first few, and of others while there is time."""
        from twinnet.blame.context import blame

        begun, before = time.monotonic(), self._found.causes
        found: dict[str, Blame] = {}
        for start in range(0, len(asked), _BLAMED):
            batch = asked[start : start + _BLAMED]
            if self._seconds + time.monotonic() - begun > _LOOKING:
                if start:
                    break
                batch = [a for a in batch if a[0].site.tensor in before or len(before) < _BLAMED]
            with self._job.step("blame", ours=True):
                found |= blame(batch, context, impacts=0 if start else 4, sample=seen.number)
            for number, (pair, _) in enumerate(batch):
                with self._job.step("confirm", ours=True):
                    said = f"running the twin's segment alone, {start + number + 1} of {len(asked)}"
                    self._job.progress(said, (start + number) / len(asked))
                    yes, why = self._confirm(pair, context, seen)
                tensor = pair.site.tensor
                if yes is None and tensor in before:  # what an earlier sample showed still holds
                    yes, why = before[tensor].confirmed, before[tensor].confirmation
                found[tensor] = replace(found[tensor], confirmed=yes, confirmation=why)
        self._seconds += time.monotonic() - begun
        return found

    def _doubts(
        self, tensors: Sequence[str], found: Mapping[str, Blame], context: Context, number: int
    ) -> dict[str, Fact]:
        """Causes that one sample suggests and another refutes: a cause is a claim about the twin."""
        from twinnet.blame.context import contradicted, problem_of

        by_tensor = {p.site.tensor: p for p in context.pairs}
        doubts: dict[str, Fact | None] = {}
        for tensor in tensors:
            earlier = self._found.causes[tensor]
            if coded(earlier.reason, "cause.samples"):
                doubts[tensor] = earlier.reason
            elif earlier.cause is not None:
                problem = problem_of(by_tensor[tensor], context)
                doubts[tensor] = contradicted(earlier, problem, number)
            elif tensor in found:
                doubts[tensor] = contradicted(found[tensor], earlier.unexplained, earlier.sample)
        return {tensor: why for tensor, why in doubts.items() if why is not None}

    def _off(self, judged: Sequence[PairResult], units: float) -> bool:
        """Whether an output is off by so many units of rounding, relative to its range."""
        outputs = (p for p in judged if p.site.role == "output")
        unit = self._plan.units.plain * units / VISIBLE
        return any(visible(p.difference, unit, p.site.op) for p in outputs)

    def _confirm(self, pair: Pair, context: Context, seen: Seen) -> tuple[bool | None, Fact]:
        """Whether the twin's segment fails alone too, and the fact that says so."""
        from twinnet.blame.confirm import Confirmer

        test = self._plan.test
        assert test is not None
        if self._confirmer is None:
            self._confirmer = Confirmer(self._plan.twin, self._job)
        judge = lambda p, trace: test.on(seen.twin_sample, seen.trace, trace)(p)  # noqa: E731
        return self._confirmer.confirm(pair, context, judge)

    def _rank(self, seen: Seen, judged: Sequence[PairResult]) -> None:
        """Rank segments by the impact of their error within budget, where the twin is coarser than the network."""
        within = [p for p in judged if p.status in ("pass", "untested") and p.difference.differing]
        if not within or (context := context_of(self._plan, seen)) is None:
            return
        if self._rank_seconds > _RANKING:
            samples = len(self._job.samples)
            note = fact("note.ranked", samples=self._rank_samples, of=samples)
            self._found = replace(self._found, notes=(note,))
            return
        from twinnet.blame.contributors import rank, strongest

        self._job.progress("ranking what contributes to the difference")
        by_tensor = {p.site.tensor: p for p in self._plan.pairing.pairs}
        begun = time.monotonic()
        with self._job.step("rank contributors", ours=True):
            most = _RANKED if self._adviser is None else _ADVISED
            pairs = [(by_tensor[p.site.tensor], p.ratio or 0.0) for p in within]
            ranked = strongest(self._found.ranked, rank(pairs, context, most=most), most)
            self._found = replace(self._found, ranked=ranked)
        self._rank_samples = seen.number + 1
        self._rank_seconds += time.monotonic() - begun

    def _advise(self, adviser: Adviser) -> None:
        """Try keeping contributors and findings in float, in the order of their impact."""
        found = {**self._found.ranked, **self._found.causes}
        impacts = {t: b.impact for t, b in found.items() if b.impact}
        ranked = sorted(impacts, key=lambda t: impacts[t] or 0.0, reverse=True)
        self._job.progress("trying segments in float")
        with self._job.step("advise", ours=True):
            advice = adviser.advise(ranked, self._job.samples, target=self._target, out=self._out)
        self._found = replace(self._found, advice=advice)


def context_of(plan: Plan, seen: Seen) -> Context | None:
    """The context of one sample; None if the network's layers are not known."""
    net, twin, test = plan.net, plan.twin, plan.test
    outputs = tuple(zip(net.output_tensors, twin.output_tensors, strict=False))
    chance = {"varying": plan.observed.varying, "spread": plan.observed.spread}
    if isinstance(test, OwnJudge):  # the network's own judge knows its steps
        own = test.context(seen.sample, seen.twin_trace, outputs)
        return None if own is None else replace(own, **chance)
    if plan.graph is None:
        return None
    from twinnet.blame.context import Context
    from twinnet.judge.born import BornTest
    from twinnet.network.arrays import to_tensor

    if not isinstance(test, BornTest):
        return None
    return Context(
        plan.graph,
        plan.pairing.pairs,
        test.frontiers(seen.twin_sample, seen.trace, seen.twin_trace),
        seen.trace,
        seen.twin_trace,
        {t: to_tensor(np.asarray(seen.sample[n])) for n, t in net.inputs.items() if n in seen.sample},
        plan.units.born,
        twin.graph(),
        plan.twin_inputs,
        outputs,
        declared=test.declared,
        **chance,
    )
