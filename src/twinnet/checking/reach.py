"""What the samples reach of bounds and branches, and more synthetic ones where they leave some side unreached."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator
from typing import Any, cast

import numpy as np

from twinnet.checking.case import Case
from twinnet.engines.base import Session
from twinnet.errors import EngineError
from twinnet.inputs.samples import Made
from twinnet.inputs.synthetic import kind_of
from twinnet.job import Arrays
from twinnet.judge.exercise import Exercise, Seeing
from twinnet.judge.plan import Plan
from twinnet.judge.sample import Seen
from twinnet.layers.graph import Graph
from twinnet.result import Fact

__all__ = ["Reached", "further_samples", "odd_samples"]

_STRETCHED = ((2.0, -1.0), (-1.0, 0.0), (8.0, -4.0), (64.0, -32.0), (1024.0, -512.0))
"""Factors and offsets of float inputs, the nearest to the sample itself first."""

_SIGNED = (4.0, -2.0)
"""From [0, 1] to [-2, 2], as pictures are after the usual normalisation."""

_WIDE = 32.0
"""How far numbers go from 0 where only outputs can tell whether the twin has bounds that the network has not."""

_MOST = 3

_KEPT = ("mask", "rate")
"""Kinds of inputs that mean nothing in another range."""

_WIDEST = {"float16": 6e4}
"""Bounds at the end of a format's range, which keep it from overflowing."""


class Reached:
    """Which bounds and branches the samples have reached so far: the network's, and those of a twin that can be read.

    A twin that is converted from this very network has the network's bounds.
    """

    def __init__(self, plan: Plan, *, derived: bool) -> None:
        self._plan = plan
        self._ours = Exercise((None if plan.by_network else plan.graph) or Graph(()), _observable(plan.net))
        theirs = plan.twin.graph() if plan.twin.live and not derived and not plan.by_network else None
        widest = _WIDEST.get(plan.twin.precision, np.inf)
        self._theirs = Exercise(theirs or Graph(()), _observable(plan.twin), widest=widest)

    @property
    def missing(self) -> tuple[Fact, ...]:
        """What no sample reached of the network."""
        return self._ours.missing

    @property
    def twins(self) -> tuple[Fact, ...]:
        """What no sample reached of the twin alone."""
        return self._theirs.beyond(self._ours)

    @property
    def all(self) -> bool:
        """Whether nothing is left to reach."""
        return not self._ours.tensors and not self.twins

    def see(self, seen: Seen) -> None:
        """Cross off what a judged sample reaches."""
        self._ours.see(ChainMap(self._plan.by_tensor(seen.sample), cast(Any, seen.trace)))
        self._theirs.see(ChainMap(_inputs(self._plan.twin, seen.sample), cast(Any, seen.twin_trace)))

    def see_rest(self, sample: Arrays) -> None:
        """Cross off what tensors show that no check needs: one more run of a side, if there are any."""
        pairs = self._plan.pairing.pairs
        if self._plan.net.live and self._ours.tensors - {p.site.tensor for p in pairs}:
            self.reaches_more(sample)
        elif self.twins and self._theirs.tensors - {p.twin_site.tensor for p in pairs}:
            _seen(self._plan.twin, self._theirs, sample)

    def reaches_more(self, sample: Arrays) -> bool:
        """Whether a sample reaches something new, and the network gives numbers on it."""
        plan = self._plan
        try:
            outputs = plan.net.run(sample)
        except EngineError:  # it was not made for such numbers
            return False
        if not all(np.isfinite(a).all() for a in outputs.values() if a.dtype.kind in "fc"):
            return False
        reached = _seen(plan.net, self._ours, sample)
        return (bool(self.twins) and _seen(plan.twin, self._theirs, sample)) or reached


def further_samples(case: Case, plan: Plan, reached: Reached) -> Iterator[Arrays]:
    """Samples of other ranges that reach what those before did not; at most a few, and none where that proves nothing.

    Quantised and narrow twins are made for a range, and so are tables; given data is what the user wants judged.
    """
    samples = case.feed.samples
    if not isinstance(samples, Made) or not _may_stretch(plan):
        return
    made = 0
    for sample in _candidates(samples):
        if made == _MOST or reached.all:
            return
        if reached.reaches_more(sample):
            made += 1
            yield sample


def odd_samples(case: Case, plan: Plan) -> Iterator[Arrays]:
    """Samples in ranges where a bound that only the twin has changes its outputs; compared as deployed.

    Pictures are made in [0, 1], where a clip, a ReLU or an absolute value changes nothing. A twin whose layers are not
    known may have a bound anywhere.
    """
    samples = case.feed.samples
    if not isinstance(samples, Made) or not _may_stretch(plan):
        return
    first = samples[0]
    pictures = {
        spec.name
        for spec in samples.signature.inputs
        if spec.name in first and kind_of(spec) == "image" and first[spec.name].min(initial=0) >= 0
    }
    signed = {n: a for n, a in _stretched(samples, *_SIGNED).items() if n in pictures}
    if signed:
        yield {**first, **signed}
    if plan.twin.graph() is None:
        wide = _stretched(samples, _WIDE, 0.0)
        wide |= {n: a for n, a in _stretched(samples, 2 * _WIDE, -_WIDE).items() if n in pictures}
        if wide:
            yield {**first, **wide}


def _may_stretch(plan: Plan) -> bool:
    return plan.net.live and plan.twin.live and not plan.units.narrow and not plan.by_network


def _stretched(samples: Made, factor: float, offset: float) -> dict[str, np.ndarray]:
    """The float inputs of the first sample in another range."""
    kept = {*samples.fixed, *(s.name for s in samples.signature.inputs if kind_of(s) in _KEPT)}
    return {
        name: (array * factor + offset).astype(array.dtype)
        for name, array in samples[0].items()
        if array.dtype.kind == "f" and array.size and name not in kept
    }


def _candidates(samples: Made) -> Iterator[Arrays]:
    for factor, offset in _STRETCHED:
        changed = _stretched(samples, factor, offset)
        if changed:
            yield {**samples[0], **changed}
    for more in range(2):
        yield samples.further(more)


def _observable(side: Session) -> frozenset[str]:
    return frozenset(site.tensor for site in side.sites) | frozenset(side.inputs.values())


def _inputs(side: Session, sample: Arrays) -> dict[str, np.ndarray]:
    return {tensor: np.asarray(sample[name]) for name, tensor in side.inputs.items() if name in sample}


def _seen(side: Session, exercise: Exercise, sample: Arrays) -> bool:
    """Run one side and cross off what that reaches; whether anything was."""
    reached = exercise.see(_inputs(side, sample))
    watch = exercise.tensors & {site.tensor for site in side.sites}
    if watch:
        seeing = Seeing(exercise)
        try:
            side.trace(sample, watch, seeing).close()
        except EngineError:  # judging the sample says so
            return reached
        reached |= seeing.reached
    return exercise.see(_computed(side, exercise.tensors - _observable(side), sample)) or reached


def _computed(side: Session, tensors: Collection[str], sample: Arrays) -> dict[str, np.ndarray]:
    """Tensors that the engine does not show, by the layers; nothing where those cannot be evaluated."""
    graph = side.graph() if tensors else None
    if graph is None:
        return {}
    from twinnet.layers import evaluate
    from twinnet.layers.kinds import UnknownLayer
    from twinnet.network.arrays import to_tensor

    given = {name: to_tensor(array) for name, array in _inputs(side, sample).items()}
    layers, _ = graph.segment(tensors, given)
    try:
        found = evaluate(graph, given, layers=layers, keep=tensors)
    except (EngineError, UnknownLayer):
        return {}
    return {name: value.numpy() for name, value in found.items()}
