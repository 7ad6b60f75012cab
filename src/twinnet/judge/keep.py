"""What is kept of a sample once it is judged: tensors to look at, causes and impact.

All of it is taken while the traces are at hand; afterwards they are gone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines.meaning import OwnJudge
from twinnet.errors import UsageError
from twinnet.judge.aggregate import VISIBLE, visible
from twinnet.judge.seen import Seen
from twinnet.pairing import Pair
from twinnet.result import PairResult

if TYPE_CHECKING:
    from twinnet.blame.advise import Adviser
    from twinnet.blame.confirm import Confirmer
    from twinnet.blame.context import Blame, Context
    from twinnet.blame.groups import Group
    from twinnet.judge.judgement import Judgement
    from twinnet.result import Advice

__all__ = ["Keeper"]

_KEPT = 8
_KEPT_BYTES = 32 << 20
_BLAMED = 8
_RANKED = 16
_RANKING = 30.0
"""Seconds after which no further sample is ranked."""
_SAYS_SOMETHING = 8.0
_ADVISED = 64


class Keeper:
    """Collects over the samples of one check; a worse sample takes the place of an earlier one.

    `tensors` holds both sides of the tensors worth showing, `blamed` cause and impact of findings, `ranked` the
    impact of contributors, each by network tensor name. `tied` are findings that are one, `together` the segments that
    explain the output error only together, `notes` what was left out.
    """

    def __init__(self, check: Judgement) -> None:
        self._check = check
        self.tensors: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.blamed: dict[str, Blame] = {}
        self.ranked: dict[str, Blame] = {}
        self.tied: list[tuple[str, ...]] = []
        self.together: Group | None = None
        self._merged = False
        self._confirmer: Confirmer | None = None
        self.advice: Advice | None = None
        self.notes: tuple[str, ...] = ()
        self._rank_samples, self._rank_seconds = 0, 0.0

    def add(self, judged: Sequence[PairResult], seen: Seen) -> None:
        """Keep what one judged sample shows."""
        keep = self._check.settings.keep
        if keep != "none":
            self._keep_tensors(judged, seen, everything=keep == "all")
        self._blame(judged, seen)
        settings = self._check.settings
        if self._check.narrow or settings.advise:
            self._rank(judged, seen)
        if settings.advise:
            # By what all samples show; whether advice can be given at all is known from the first.
            adviser = self._adviser(seen)
            if seen.number == len(self._check.feed.samples) - 1:
                self._advise(adviser)

    def _keep_tensors(self, judged: Sequence[PairResult], seen: Seen, *, everything: bool) -> None:
        """Copies of the tensors a person will want to see: outputs, findings, the worst of the rest."""
        by_tensor = {p.site.tensor: p for p in seen.pairing.pairs}
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
                ours, theirs = seen.tensors(by_tensor[name])
                self.tensors[name] = (np.array(ours), np.array(theirs))
        if not everything and len(self.tensors) > 2 * _KEPT:
            for name in list(self.tensors)[2 * _KEPT :]:
                del self.tensors[name]

    def _blame(self, judged: Sequence[PairResult], seen: Seen) -> None:
        """Cause and impact of the first findings, while the tensors of the sample that shows them are at hand."""
        failed = [p for p in judged if p.status == "fail" and p.rule in ("noise floor", "structure")]
        known = self.blamed
        worse = [
            p for p in failed if p.site.tensor not in known or (p.ratio or 0.0) > known[p.site.tensor].ratio
        ]
        worse = [p for p in worse if p.site.tensor in known or len(known) < _BLAMED][:_BLAMED]
        # No segment was caught, and yet the output is plainly different.
        hidden = not failed and not self._check.narrow and not self._check.tolerances
        unclear = hidden and self._off(judged, 16 * VISIBLE)
        if not (worse or unclear) or (context := self.context(seen)) is None:
            return
        from twinnet.blame.context import blame
        from twinnet.blame.groups import merge_until_explained, tied

        self._check.settings.progress("looking for the cause", None)
        by_tensor = {p.site.tensor: p for p in seen.pairing.pairs}
        with self._check.job.step("blame"):
            found = blame([(by_tensor[p.site.tensor], p.ratio or 0.0) for p in worse], context)
            before = {t: known.get(t) for t in found}
            known.update(found)
            tensors = [p.site.tensor for p in failed]
            self.tied = tied(tensors, context, known) or self.tied
            # The share of an output error that is itself no more than rounding would say nothing.
            if not self._merged and self._off(judged, 0.25 if self._check.narrow else _SAYS_SOMETHING):
                self._merged = True
                within = [p for p in judged if p.status in ("pass", "untested") and p.difference.differing]
                rest = [(by_tensor[p.site.tensor], p.ratio or 0.0) for p in within]
                self.together = merge_until_explained(tensors, rest, context, known)
        for number, (tensor, earlier) in enumerate(before.items()):
            with self._check.job.step("confirm"):
                said = f"running the twin's segment alone, {number + 1} of {len(before)}"
                self._check.settings.progress(said, number / len(before))
                yes, why = self._confirm(by_tensor[tensor], context, seen)
            if yes is None and earlier is not None:  # what an earlier sample told still holds
                yes, why = earlier.confirmed, earlier.confirmation
            known[tensor] = replace(known[tensor], confirmed=yes, confirmation=why)

    def _off(self, judged: Sequence[PairResult], units: float) -> bool:
        """Whether an output is off by so many units of rounding, relative to its range."""
        check = self._check
        outputs = (p for p in judged if p.site.role == "output")
        unit = check.plain_unit * units / VISIBLE
        return any(visible(p.difference, unit, p.site.op) for p in outputs)

    def _confirm(self, pair: Pair, context: Context, seen: Seen) -> tuple[bool | None, str]:
        """Whether the twin's segment alone shows it, and that in words."""
        from twinnet.blame.confirm import Confirmer

        twin, test = self._check.sides.twin, seen.test
        assert twin is not None and test is not None
        if self._confirmer is None:
            self._confirmer = Confirmer(twin, self._check.job)
        judge = lambda p, trace: test.on(seen.twin_sample, seen.trace, trace)(p)  # noqa: E731
        return self._confirmer.confirm(pair, context, judge)

    def _rank(self, judged: Sequence[PairResult], seen: Seen) -> None:
        """Impact of what segments create within their budget, where the twin is coarser than the network."""
        within = [p for p in judged if p.status in ("pass", "untested") and p.difference.differing]
        if not within or (context := self.context(seen)) is None:
            return
        if self._rank_seconds > _RANKING:
            samples = len(self._check.feed.samples)
            self.notes = (f"contributors are ranked by the first {self._rank_samples} of {samples} samples",)
            return
        from twinnet.blame.contributors import rank, strongest

        self._check.settings.progress("ranking what contributes to the difference", None)
        by_tensor = {p.site.tensor: p for p in seen.pairing.pairs}
        begun = time.monotonic()
        with self._check.job.step("rank contributors"):
            most = _ADVISED if self._check.settings.advise else _RANKED
            pairs = [(by_tensor[p.site.tensor], p.ratio or 0.0) for p in within]
            self.ranked = strongest(self.ranked, rank(pairs, context, most=most), most)
        self._rank_samples = seen.number + 1
        self._rank_seconds += time.monotonic() - begun

    def _adviser(self, seen: Seen) -> Adviser:
        """Who tries what keeping segments in float would give; raises where nobody can."""
        check = self._check
        net, twin = check.sides.net, check.sides.twin
        if net is None or twin is None or (context := self.context(seen)) is None:
            raise UsageError(
                "no advice can be given for this twin",
                hint="--advise needs a network whose layers are known, and a twin whose tensors can be seen",
            )
        from twinnet.blame.advise import Adviser

        adviser = Adviser(context, (net, twin), check.sides.twin_spec, check.network, check.job)
        adviser.refuse(check.settings.advise_out)
        return adviser

    def _advise(self, adviser: Adviser) -> None:
        """What keeping segments in float would give: contributors and findings, by impact."""
        settings = self._check.settings
        impacts = {t: b.impact for t, b in (self.ranked | self.blamed).items() if b.impact}
        ranked = sorted(impacts, key=lambda t: impacts[t] or 0.0, reverse=True)
        settings.progress("trying segments in float", None)
        with self._check.job.step("advise"):
            self.advice = adviser.advise(
                ranked, self._check.feed.samples, target=settings.advise_target, out=settings.advise_out
            )

    def context(self, seen: Seen) -> Context | None:
        """What blame may look at; None where nobody knows the network's layers."""
        net, twin, test = self._check.sides.net, self._check.sides.twin, seen.test
        if net is None or twin is None:
            return None
        outputs = tuple(zip(net.output_tensors, twin.output_tensors, strict=False))
        chance = {"varying": self._check.varying, "spread": self._check.spread}
        if isinstance(test, OwnJudge):  # a network with a meaning of its own has steps of its own
            own = test.context(seen.sample, seen.twin_trace, outputs)
            return None if own is None else replace(own, **chance)
        if seen.graph is None:
            return None
        from twinnet.blame.context import Context
        from twinnet.judge.born import BornTest
        from twinnet.network.arrays import to_tensor

        if not isinstance(test, BornTest):
            return None
        return Context(
            seen.graph,
            seen.pairing.pairs,
            test.frontiers(seen.twin_sample, seen.trace, seen.twin_trace),
            seen.trace,
            seen.twin_trace,
            {t: to_tensor(np.asarray(seen.sample[n])) for n, t in net.inputs.items() if n in seen.sample},
            seen.unit,
            twin.graph(),
            {twin.inputs[n]: t for n, t in net.inputs.items() if n in twin.inputs},
            outputs,
            declared=test.declared,
            **chance,
        )
