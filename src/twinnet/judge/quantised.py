"""The born test of a quantised twin: its budget is its own declared steps.

The network's segment is evaluated in float64 on what the twin's numbers stand for. The twin may be off by half a step
of each weight, carried through the layer, by half a step of its result, and by float rounding. All of these are the
largest possible errors and not typical ones, so that nothing beyond them is allowed. Two more things are looked at:
each weight must lie within half a step of the network's, and the range of a result must hold the network's own values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.born import BornTest, SampleJudge, Sizes
from twinnet.judge.verdicts import LIMIT, Born
from twinnet.layers import evaluate_with_error
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.quantised import Quantised
from twinnet.layers.simplify import simplified
from twinnet.layers.step import Step
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair, Pairing
from twinnet.site import Site

__all__ = ["STEPS", "QuantisedTest", "Weight", "seen_sites", "with_steps"]

STEPS = 1.05
"""Times its budget that a quantised segment may be off: the budget itself is the largest possible error."""

_SEEN = 4.0
"""A tensor must be this many budgets large somewhere, else the data cannot show a fault in it."""

_WEIGHTED = {"conv", "conv_transpose", "matmul", "gemm", "linear"}


def seen_sites(
    sites: Sequence[Site], view: Quantised, known: Mapping[str, object] | set[str]
) -> tuple[list[Site], dict[str, str]]:
    """The twin's sites under the names of what was quantised, and those names to their own.

    A tensor in whole numbers stands for the one it was made from. That one itself is left out: quantisers drop an
    activation whose bounds are those of the range, so that it may hold something else.
    """
    mine = {s.tensor for s in sites}
    renamed: list[Site] = []
    back: dict[str, str] = {}
    hidden: set[str] = set()
    for site in sites:
        source = view.sources.get(site.tensor)
        if site.tensor in view.steps and source is not None:
            hidden.add(source)
            if site.tensor not in known and source in known and source not in back:
                back[source] = site.tensor
    for site in sites:
        alias = next((name for name, own in back.items() if own == site.tensor), None)
        if alias is not None:
            renamed.append(replace(site, tensor=alias))
        elif site.tensor not in back and (site.tensor not in hidden or site.role == "output"):
            renamed.append(site)
    return renamed, {name: own for name, own in back.items() if own in mine}


def with_steps(pairing: Pairing, sites: Sequence[Site], back: Mapping[str, str], view: Quantised) -> Pairing:
    """A pairing of `seen_sites` with the twin's own sites again, each with its step."""
    own = {s.tensor: s for s in sites}
    pairs = []
    for pair in pairing.pairs:
        name = back.get(pair.twin_site.tensor, pair.twin_site.tensor)
        step = view.steps.get(name)
        transform = pair.transform if step is None else replace(pair.transform, step=step)
        pairs.append(replace(pair, twin_site=own[name], transform=transform))
    return replace(pairing, pairs=tuple(pairs), twin_sites=tuple(sites))


@dataclass(frozen=True)
class Weight:
    """A weight of the network (`ours`, where its layers are simplified) and of the twin, with its half steps."""

    layer: Layer
    place: int
    ours: torch.Tensor
    theirs: torch.Tensor
    half: torch.Tensor
    limits: torch.Tensor

    @cached_property
    def ratio(self) -> float:
        """The largest distance in half steps; float rounding of the scale is allowed for."""
        off = (self.theirs - self.ours).abs() - 4 * 2.0**-24 * self.ours.abs()
        return float((off / self.half).max()) if self.ours.numel() else 0.0


class QuantisedTest(BornTest):
    """Judges pairs of a network and a quantised twin, `view` being the twin's graph seen through."""

    def __init__(
        self,
        graph: Graph,
        pairs: Sequence[Pair],
        view: Quantised,
        twin_inputs: Mapping[str, str],
        *,
        unit: float,
        inputs: Mapping[str, str],
        observable: set[str],
        spread: Mapping[str, float],
    ) -> None:
        super().__init__(graph, pairs, unit=unit, inputs=inputs, observable=observable, spread=spread)
        self.view = view
        self.twin_inputs = twin_inputs
        self._twins = {p.twin_site.tensor: p for p in pairs}
        self._sample_class = _Quantised
        self._weights: dict[str, tuple[Weight, ...]] = {}

    def twin_segment(self, tensor: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The twin's layers of a pair's segment and the values they start from, by the twin's names."""
        return self.view.graph.segment([tensor], [*self._twins, *self.twin_inputs])

    def step_of(self, pair: Pair) -> Step | None:
        """The step that a pair's tensor is kept in."""
        return self.view.steps.get(pair.twin_site.tensor)

    def weights(self, pair: Pair) -> tuple[Weight, ...]:
        """Weights of a pair's segment on both sides, where the segment has the same products on both."""
        tensor = pair.site.tensor
        if tensor not in self._weights:
            ours = _products(self._graph, self.segment(tensor)[0], tensor, self._graph.constants)
            self._weights[tensor] = self._matched(ours, pair)
        return self._weights[tensor]

    def _matched(self, ours: Sequence[tuple[Layer, Mapping]], pair: Pair) -> tuple[Weight, ...]:
        view, name = self.view, pair.twin_site.tensor
        layers = self.twin_segment(name)[0]
        # What simplifying does to a weight it does to the half steps beside it.
        tables = [view.graph.constants, view.halves, view.limits]
        found = [
            _products(
                view.graph, layers, name, {**view.graph.constants, **{k: v.double() for k, v in t.items()}}
            )
            for t in tables
        ]
        theirs, halves, limits = found
        if len(ours) != len(theirs):
            return ()
        made = []
        for (a, mine), (b, their), (_, half), (_, limit) in zip(ours, theirs, halves, limits, strict=True):
            for place in (1, 2):
                names = [layer.inputs[place] if place < len(layer.inputs) else None for layer in (a, b)]
                if names[0] is None or names[1] is None or names[0] not in mine or names[1] not in their:
                    continue
                if names[1].removesuffix(".T") not in view.halves:
                    continue
                w, v = mine[names[0]].double(), their[names[1]].double()
                if w.shape == v.shape and a.kind == b.kind:
                    made.append(Weight(a, place, w, v, half[names[1]].abs(), limit[names[1]] != 0))
        return tuple(made)


def _products(
    graph: Graph, layers: Sequence[int], target: str, constants: Mapping[str, torch.Tensor]
) -> list[tuple[Layer, Mapping[str, torch.Tensor]]]:
    """Layers with weights of a segment in their simplest form, with its constants."""
    part = Graph(tuple(graph.layers[i] for i in layers), (), (target,), constants)
    part = replace(
        part, layers=tuple(replace(x, kind="identity") if x.kind == "quantised" else x for x in part.layers)
    )
    simple = simplified(part)
    return [(layer, simple.constants) for layer in simple if layer.kind in _WEIGHTED]


class _Quantised(SampleJudge):
    """Judges on one sample by the twin's steps."""

    _test: QuantisedTest

    def judge(self, pair: Pair) -> Born:
        test = self._test
        tensor = pair.site.tensor
        labels = test.labels(tensor) if tensor in test._graph.producer else ()
        found = self.measured(pair)
        if found is None:
            return super().judge(pair)
        got, expected, allowed = found
        if expected.numel() == 0:
            return Born("pass", 0.0, 0.0, 0.0, segment=labels, limit=STEPS)
        sizes = Sizes(got, expected, allowed, LIMIT * test._unit, test._spread.get(tensor, 0.0))
        worst = max((w.ratio for w in test.weights(pair)), default=0.0)
        status, reason = "pass", ""
        if not sizes.finite and bool((got.isfinite() != expected.isfinite()).any()):
            return Born("fail", reason="NaN or Inf in other places than in the network", segment=labels)
        if sizes.ratio > STEPS:
            status, reason = "fail", "more than its steps can explain"
        elif worst > STEPS:
            status, reason = "fail", f"a weight is {worst:.3g} half steps from the network's"
            return Born(status, max(worst, sizes.ratio), sizes.born, sizes.floor, reason, labels, STEPS)
        elif sizes.level < _SEEN:
            status, reason = "untested", "the values are as small as what the steps may change"
        return Born(status, sizes.ratio, sizes.born, sizes.floor, reason, labels, STEPS)

    def measured(self, pair: Pair) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """What the twin has, what the network makes of the twin's inputs, and how far apart the twin's steps
        allow them to be; None where that cannot be told in numbers."""
        test = self._test
        tensor = pair.site.tensor
        if tensor not in test._graph.producer:
            return None
        layers, frontier = test.segment(tensor)
        if any(not self._has(n) for n in frontier):
            return None
        got = to_tensor(np.asarray(pair.transform.to_network(self._twin[pair.twin_site.tensor])))
        if not got.is_floating_point():
            return None
        try:
            expected, error = self._evaluate(tensor, layers, frontier, {})
            budget = self._budget(pair)
        except EngineError:
            return None
        if expected.shape != got.shape or budget is None:
            return None
        allowed = budget if error is None else budget + LIMIT * error
        return got, self._clamped(pair, expected), allowed

    def _budget(self, pair: Pair) -> torch.Tensor | None:
        """How far the twin's own steps and float rounding may move a result, by its own graph."""
        test, view, name = self._test, self._test.view, pair.twin_site.tensor
        layers, frontier = test.twin_segment(name)
        values: dict[str, torch.Tensor] = {}
        for n in frontier:
            if n in test.twin_inputs:
                values[n] = to_tensor(np.asarray(self._sample[test.twin_inputs[n]]))
                continue
            if n not in test._twins:
                return None
            array = np.asarray(self._twin[n])
            step = test._twins[n].transform.step
            values[n] = to_tensor(array if step is None else step.to_real(array))
        found = evaluate_with_error(
            view.graph, values, view.halves, unit=LIMIT * test._unit, layers=layers, keep=[name]
        )
        value, bound = found[name]
        if bound is None:
            bound = torch.zeros(value.shape, dtype=torch.float32)
        return to_tensor(np.ascontiguousarray(pair.transform.to_layout(bound.expand(value.shape).numpy())))

    def _clamped(self, pair: Pair, expected: torch.Tensor) -> torch.Tensor:
        """Within the range of the twin's step, but only where the network's own value is: a range that does
        not hold the network's values is the twin's fault."""
        step = self._test.step_of(pair)
        own = self._network.get(pair.site.tensor)
        if step is None or own is None or pair.transform.perm is not None or pair.transform.shape is not None:
            return expected
        low, high = step.ends(expected.dim())
        half = step.half(expected.dim())
        inside = torch.from_numpy((own >= low - half) & (own <= high + half))
        ends = torch.from_numpy(np.asarray(low)), torch.from_numpy(np.asarray(high))
        return torch.where(inside, torch.minimum(torch.maximum(expected, ends[0]), ends[1]), expected)
