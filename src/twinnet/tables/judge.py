"""The born test of table networks: every site recomputed in whole numbers from the twin's own values before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines.base import Session
from twinnet.engines.meaning import OwnJudge
from twinnet.errors import EngineError
from twinnet.job import Arrays
from twinnet.judge.verdicts import Born
from twinnet.lut.plan import INPUT, Plan
from twinnet.lut.plan import sites as plan_sites
from twinnet.result import fact
from twinnet.tables.read import Tabulate, read_plan
from twinnet.tables.session import TableSession
from twinnet.tables.view import planes_of

if TYPE_CHECKING:
    import torch

    from twinnet.blame.context import Context
    from twinnet.pairing import Pair
    from twinnet.shrink.seed import Seed

__all__ = ["PlanJudge"]


class PlanJudge(OwnJudge):
    """Judges a twin by what the tables of `plan` give, one unit per entry allowed where `slack` is 1.

    A site whose sources the twin does not show is recomputed from the nearest ones it does show.
    """

    def __init__(
        self,
        plan: Plan,
        pairs: Sequence[Pair],
        twin: Session,
        *,
        slack: int,
        image: str,
        tabulate: Tabulate | None = None,
    ) -> None:
        self.graph = read_plan(plan, image, slack=slack, tabulate=tabulate)
        self.inputs = {image: image}
        self._image = image
        self._pairs = {p.site.tensor: p for p in pairs}
        self._twin = twin
        self.slack = slack
        self._denominators = {s.name: s.denominator for s in plan_sites(plan)}

    def segment(self, tensor: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The steps that make a site from the nearest sites that the twin shows, and those."""
        return self.graph.segment([tensor], [*self._pairs, self._image])

    def labels(self, tensor: str) -> tuple[str, ...]:
        """The sites of a segment that the twin does not show, and the one it ends in."""
        steps = [self.graph.layers[i].node for i in reversed(self.segment(tensor)[0])]
        return tuple(s for s in steps if s != INPUT)

    def unit(self, tensor: str) -> float:
        """One numerator of a site, in pixel units."""
        return 1.0 / self._denominators.get(tensor, 1)

    @staticmethod
    def planes(image: np.ndarray) -> np.ndarray:
        """The 8-bit planes of an image, as a register: [planes, 1, rows, columns]."""
        return planes_of({"image": image})[:, None].astype(np.float64)

    def values(self, names: Sequence[str], sample: Arrays, twin_trace: Arrays) -> dict[str, torch.Tensor]:
        """The image, and what the twin has at sites."""
        from twinnet.network.arrays import to_tensor

        def value(name: str) -> np.ndarray:
            if name == self._image:
                return np.asarray(sample[name])
            pair = self._pairs[name]
            return np.asarray(pair.transform.to_network(twin_trace[pair.twin_site.tensor]))

        return {n: to_tensor(value(n)) for n in names}

    def on(self, sample: Arrays, network_trace: Arrays, twin_trace: Arrays) -> Callable[[Pair], Born]:
        """A judge of pairs for one sample."""
        from twinnet.layers import evaluate_with_error

        def judge(pair: Pair) -> Born:
            name = pair.site.tensor
            if name not in self.graph.producer:
                return Born("not judged", reason=fact("table.no_site"))
            layers, frontier = self.segment(name)
            labels = self.labels(name)
            try:
                values = self.values(frontier, sample, twin_trace)
                found = evaluate_with_error(self.graph, values, {}, unit=2.0**-24, layers=layers, keep=[name])
            except EngineError as error:
                return Born("not judged", reason=fact("born.not_evaluated", error=error.what), segment=labels)
            value, bound = found[name]
            got = pair.transform.to_network(twin_trace[pair.twin_site.tensor])
            limit = 0.0 if bound is None else bound.numpy().astype(np.float64)
            return self._compared(name, value.numpy(), limit, np.asarray(got), labels)

        return judge

    def _compared(
        self,
        name: str,
        expected: np.ndarray,
        bound: np.ndarray | float,
        got: np.ndarray,
        labels: tuple[str, ...],
    ) -> Born:
        if expected.shape != got.shape:
            reason = fact("table.shape", network=expected.shape, twin=got.shape)
            return Born("fail", reason=reason, segment=labels)
        if not np.isfinite(bound).all():
            reason = fact("table.unseen")
            return Born("not judged", reason=reason, segment=labels)
        unit = self.unit(name)
        slack = np.floor(np.broadcast_to(bound, got.shape) / unit + 0.25) * unit
        # Within half a numerator it is the same whole number.
        with np.errstate(invalid="ignore"):
            off = np.abs(got - expected)
            wrong = ~(off < slack + 0.5 * unit)
        # NaN counts as infinitely far off.
        off = np.where(np.isnan(off), np.inf, off)
        most, allowed = float(off.max(initial=0.0)), float(slack.max(initial=0.0))
        if not wrong.any():
            ratio = most / allowed if allowed else 0.0
            return Born("pass", ratio, most if allowed else 0.0, allowed, None, labels, 1.0)
        reason = fact("table.values", count=int(wrong.sum()), elements=off.size, exact=not self.slack)
        return Born("fail", most / max(allowed, unit), most, allowed, reason, labels, 1.0)

    def context(
        self,
        sample: Arrays,
        twin_trace: Arrays,
        outputs: Sequence[tuple[str, str]],
    ) -> Context:
        """What blame may look at on one sample: the steps of both sides, and what the tables themselves give."""
        from twinnet.blame.context import Context
        from twinnet.layers import evaluate
        from twinnet.tables.causes import TABLES

        inputs = self.values([self._image], sample, {})
        twin = self._twin
        twin_graph = read_plan(twin.plan, self._image) if isinstance(twin, TableSession) else None
        sites = [n for layer in self.graph for n in layer.outputs]
        trace = {n: v.numpy() for n, v in evaluate(self.graph, inputs, keep=sites).items()}

        def frontier(pair: Pair) -> tuple[tuple[int, ...], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
            layers, names = self.segment(pair.site.tensor)
            return layers, self.values(names, sample, twin_trace), {}

        return Context(
            self.graph,
            tuple(self._pairs.values()),
            frontier,
            trace,
            twin_trace,
            inputs,
            2.0**-24,
            twin_graph,
            {self._image: self._image},
            outputs,
            repertoire=TABLES,
        )

    def seed(self, base: Seed, pair: Pair, sample: Arrays, twin_trace: Arrays) -> Seed | None:
        from twinnet.tables.repro.seed import table_seed

        return table_seed(base, self, pair, self._twin, sample, twin_trace)
