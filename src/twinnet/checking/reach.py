"""More synthetic samples, where those at hand leave a side of some bound or branch of the network unreached."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinnet.checking.case import Case
from twinnet.errors import EngineError
from twinnet.inputs.samples import Made
from twinnet.inputs.synthetic import kind_of
from twinnet.job import Arrays
from twinnet.judge.exercise import Exercise, Seeing
from twinnet.judge.plan import Plan

__all__ = ["further_samples", "see_rest", "signed_pictures"]

_STRETCHED = ((2.0, -1.0), (-1.0, 0.0), (8.0, -4.0), (64.0, -32.0), (1024.0, -512.0))
"""Factors and offsets of float inputs, the nearest to the sample itself first."""

_SIGNED = (4.0, -2.0)
"""From [0, 1] to [-2, 2], as pictures are after the usual normalisation."""

_MOST = 3


def see_rest(plan: Plan, exercise: Exercise, sample: Arrays) -> None:
    """Show the exercise the tensors that no check needs: one more run of the network, if there are any."""
    if plan.net.live and exercise.tensors - {p.site.tensor for p in plan.pairing.pairs}:
        _look(plan, exercise, sample)


def further_samples(case: Case, plan: Plan, exercise: Exercise) -> Iterator[Arrays]:
    """Samples of other ranges that reach what those before did not; at most a few, and none where that proves nothing.

    Quantised and narrow twins are made for a range, and so are tables; given data is what the user wants judged.
    """
    samples = case.feed.samples
    if not isinstance(samples, Made) or not _may_stretch(plan) or not exercise.tensors:
        return
    made = 0
    for sample in _candidates(samples):
        if made == _MOST or not exercise.tensors:
            return
        if _look(plan, exercise, sample):
            made += 1
            yield sample


def signed_pictures(case: Case, plan: Plan) -> Arrays | None:
    """The first sample with its made-up pictures in [-2, 2]; None if it has none.

    They are made in [0, 1], where a clip, a ReLU or an absolute value that only the twin has changes nothing.
    """
    samples = case.feed.samples
    if not isinstance(samples, Made) or not _may_stretch(plan):
        return None
    pictures = {spec.name for spec in samples.signature.inputs if kind_of(spec) == "image"}
    first = samples[0]
    changed = _stretched(samples, *_SIGNED)
    wanted = {name: array for name, array in changed.items() if name in pictures and first[name].min() >= 0}
    return {**first, **wanted} if wanted else None


def _may_stretch(plan: Plan) -> bool:
    return plan.net.live and plan.twin.live and not plan.units.narrow and not plan.by_network


def _stretched(samples: Made, factor: float, offset: float) -> dict[str, np.ndarray]:
    """The float inputs of the first sample in another range."""
    return {
        name: (array * factor + offset).astype(array.dtype)
        for name, array in samples[0].items()
        if array.dtype.kind == "f" and array.size and name not in samples.fixed
    }


def _candidates(samples: Made) -> Iterator[Arrays]:
    for factor, offset in _STRETCHED:
        changed = _stretched(samples, factor, offset)
        if changed:
            yield {**samples[0], **changed}
    for more in range(2):
        yield samples.further(more)


def _look(plan: Plan, exercise: Exercise, sample: Arrays) -> bool:
    """Whether a sample reaches something new, and the network gives numbers on it."""
    known = plan.by_tensor(sample)
    watch = exercise.tensors & {site.tensor for site in plan.net.sites}
    if not watch and not exercise.tensors & set(known):
        return False
    try:
        outputs = plan.net.run(sample)
    except EngineError:  # it was not made for such numbers
        return False
    if not all(np.isfinite(a).all() for a in outputs.values() if a.dtype.kind in "fc"):
        return False
    reached = exercise.see(known)
    if watch:
        seeing = Seeing(exercise)
        plan.net.trace(sample, watch, seeing).close()
        reached |= seeing.reached
    return reached
