"""More synthetic samples, where those at hand leave a side of some bound or branch of the network unreached."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinnet.checking.case import Case
from twinnet.inputs.samples import Made
from twinnet.job import Arrays
from twinnet.judge.exercise import Exercise, Seeing
from twinnet.judge.plan import Plan

__all__ = ["further_samples", "see_rest"]

_STRETCHED = ((2.0, -1.0), (-1.0, 0.0), (8.0, -4.0), (64.0, -32.0), (1024.0, -512.0))
"""Factors and offsets of float inputs, the nearest to the sample itself first."""

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
    fitting = isinstance(samples, Made) and plan.net.live and plan.twin.live
    if not fitting or plan.units.narrow or plan.by_network or not exercise.tensors:
        return
    assert isinstance(samples, Made)
    made = 0
    for sample in _candidates(samples):
        if made == _MOST or not exercise.tensors:
            return
        if _look(plan, exercise, sample):
            made += 1
            yield sample


def _candidates(samples: Made) -> Iterator[Arrays]:
    first = samples[0]
    for factor, offset in _STRETCHED:
        changed = {
            name: (array * factor + offset).astype(array.dtype)
            for name, array in first.items()
            if array.dtype.kind == "f" and name not in samples.fixed
        }
        if changed:
            yield {**first, **changed}
    for more in range(2):
        yield samples.further(more)


def _look(plan: Plan, exercise: Exercise, sample: Arrays) -> bool:
    """Whether a sample reaches something new, and the network gives numbers on it."""
    known = plan.by_tensor(sample)
    watch = exercise.tensors & {site.tensor for site in plan.net.sites}
    if not watch and not exercise.tensors & set(known):
        return False
    outputs = plan.net.run(sample)
    if not all(np.isfinite(a).all() for a in outputs.values() if a.dtype.kind in "fc"):
        return False
    reached = exercise.see(known)
    if watch:
        seeing = Seeing(exercise)
        plan.net.trace(sample, watch, seeing).close()
        reached |= seeing.reached
    return reached
