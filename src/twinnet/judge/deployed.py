"""The outputs as deployed: both sides end to end with nothing watched, judged on every sample.

Watching can change what a twin computes, and floors are slack behind long segments. What the network's own rounding
does to an output tells whether rounding can have done this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from twinnet.job import Arrays
from twinnet.judge.aggregate import absolute_scale, worst_figures
from twinnet.judge.metrics import bit_equal, compare
from twinnet.judge.parts import FAR, Apart, Rounding, measure, whole_numbers
from twinnet.judge.plan import OutputPair, Plan
from twinnet.judge.verdicts import LIMIT
from twinnet.precision import TINY, UNITS, dtype_class
from twinnet.result import Difference, Fact, fact

if TYPE_CHECKING:
    import torch

__all__ = ["Ends", "OutputSeen", "bounded_outputs", "judge_ends", "noise_of", "plain_difference", "worse"]

_FLIPPED = 0.01
"""The share of integers that steps of a quantised twin may turn over when nothing keeps its layers from being fused."""


@dataclass(frozen=True)
class Ends:
    """One sample end to end, by the names that a run gives the outputs.

    `theirs` are the twin's outputs as deployed, `watched` those of its watched run. `noisy` are the network's outputs
    that tell its own rounding, where they are not `ours`.
    """

    number: int
    sample: Arrays
    ours: Arrays
    theirs: Arrays
    watched: Arrays = field(default_factory=dict)
    noisy: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputSeen:
    """One output on one sample, or on the worst of several.

    `form` says why it cannot be compared, `wrong` why no rounding explains it, `apart` how far its parts are apart.
    """

    row: OutputPair
    number: int
    difference: Difference
    form: Fact | None = None
    wrong: Fact | None = None
    apart: Apart = field(default_factory=Apart)


def judge_ends(plan: Plan, ends: Ends) -> list[OutputSeen]:
    """Every output of one sample."""
    noise = cache(lambda: noise_of(plan, ends))  # one evaluation for all outputs that need it
    rows = (row for row in plan.outputs if row.twin_name in ends.theirs)
    return [_Output(plan, ends, row, noise).seen() for row in rows]


def worse(a: OutputSeen, b: OutputSeen) -> OutputSeen:
    """The worse of two samples of one output; a part that one sample tests is tested."""
    key_a, key_b = ((s.form is not None, s.wrong is not None, s.difference.max_abs) for s in (a, b))
    kept, other = (b, a) if key_b > key_a else (a, b)
    shown = max(a.apart.shown, b.apart.shown)
    return replace(
        kept,
        difference=worst_figures(kept.difference, other.difference),
        apart=replace(kept.apart, shown=shown, doubtful=max(a.apart.doubtful, b.apart.doubtful)),
    )


def plain_difference(
    ours: np.ndarray, theirs: np.ndarray, unit: float, op: str = "", chance: float = 0.0
) -> Fact | None:
    """Why two tensors of one shape and class are plainly different where nothing else is known; None if they are not.

    Indices, classes and counts are equal or not, whatever the format that holds them.

    >>> str(plain_difference(np.int64([3999, 5]), np.int64([4000, 5]), 2.0**-24))
    '1 of 2 whole numbers differ'
    """
    if dtype_class(ours.dtype) not in ("float", "complex") or (
        ours.dtype.kind == "f" and whole_numbers(ours)
    ):
        wrong = np.count_nonzero(ours != theirs) if not chance else 0
        return fact("output.numbers", count=wrong, elements=ours.size) if wrong else None
    rounding = Rounding(unit, whole=absolute_scale(op), chance=LIMIT * chance / FAR)
    return _part(measure(_real(ours), _real(theirs), rounding), ours.shape)


class _Output:
    """One output of one sample on its way to a judgement."""

    def __init__(
        self, plan: Plan, ends: Ends, row: OutputPair, noise: Callable[[], Mapping[str, np.ndarray]]
    ) -> None:
        self._plan, self._ends, self._row, self._noise = plan, ends, row, noise
        self._ours, self._theirs = ends.ours[row.name], ends.theirs[row.twin_name]

    def seen(self) -> OutputSeen:
        ours, theirs = self._ours, self._theirs
        base = OutputSeen(self._row, self._ends.number, Difference())
        if ours.shape != theirs.shape or dtype_class(ours.dtype) != dtype_class(theirs.dtype):
            network, twin = ((a.shape, a.dtype.name) for a in (ours, theirs))
            return replace(base, form=fact("output.form", network=network, twin=twin))
        base = replace(base, difference=compare(ours, theirs))
        if base.difference.nonfinite_mismatch:
            count = base.difference.nonfinite_mismatch
            return replace(base, wrong=fact("nonfinite.places", count=count))
        if dtype_class(ours.dtype) not in ("float", "complex"):
            apart = Apart(shown=ours.size, elements=ours.size)
            return replace(base, wrong=self._discrete(), apart=apart)
        if self._plan.by_network or self._plan.units.quantised:
            apart = Apart(shown=ours.size, elements=ours.size)
            return replace(base, wrong=self._unlike_watched(), apart=apart)
        apart = self._apart()
        return replace(base, wrong=_part(apart, ours.shape), apart=apart)

    def _apart(self) -> Apart:
        """The worst part, by the rounding of all layers; measured only if that does not explain the difference."""
        plan, row = self._plan, self._row
        layers = 0 if plan.graph is None else len(plan.graph.layers)
        ours, theirs = _real(self._ours), _real(self._theirs)
        chance = LIMIT * plan.observed.spread.get(row.tensor, 0.0) / FAR
        rounding = Rounding(plan.units.plain, layers, None, absolute_scale(_kind(plan, row.tensor)), chance)
        if plan.graph is None:
            return measure(ours, theirs, rounding)
        found = measure(ours, theirs, replace(rounding, noise=np.zeros(ours.shape)))
        if found.ratio <= 1:
            return found
        noise = self._noise().get(row.tensor)
        if noise is not None and noise.shape == ours.shape:
            coarser = plan.units.plain / UNITS.get(plan.net.precision, UNITS["float32"])
            rounding = replace(rounding, noise=noise * max(coarser, 1.0))
        found = measure(ours, theirs, rounding)
        if found.ratio > 1 and rounding.noise is not None:
            flushed = noise_of(plan, self._ends, flush=TINY).get(row.tensor)
            if flushed is not None and flushed.shape == ours.shape and flushed.any():
                rounding = replace(rounding, noise=np.maximum(rounding.noise, flushed))
                found = measure(ours, theirs, rounding)
        if found.ratio > 1 and rounding.noise is not None:
            # One run in float32 may be right by luck: what rounding of the inputs alone does is no fault either.
            shaken = noise_of(plan, self._ends, shaken=True).get(row.tensor)
            if shaken is not None and shaken.shape == ours.shape:
                found = measure(ours, theirs, replace(rounding, noise=np.maximum(rounding.noise, shaken)))
        return found

    def _unlike_watched(self) -> Fact | None:
        """Why the deployed output is not what the watched run was judged by; None if it is, or nearly.

        Tables are exact. Steps of a quantised twin may fall otherwise where watching keeps layers from being fused.
        """
        watched = self._ends.watched.get(self._row.twin_name)
        if watched is None or watched.shape != self._theirs.shape or bit_equal(watched, self._theirs):
            return None
        apart, off, known = (
            float(np.abs(a.astype(np.float64) - b).max())
            for a, b in ((self._theirs, watched), (self._theirs, self._ours), (watched, self._ours))
        )
        near = off <= LIMIT * known if self._plan.units.quantised else _same_numbers(watched, self._theirs)
        return None if near else fact("output.unwatched", error=apart)

    def _discrete(self) -> Fact | None:
        """Why integers and flags differ more than rounding of what they are decided by explains."""
        ours, theirs, plan = self._ours, self._theirs, self._plan
        watched = self._ends.watched.get(self._row.twin_name)
        wrong = ours != theirs
        if not wrong.any() or plan.observed.spread.get(self._row.tensor, 0.0):
            return None
        told = fact("output.numbers", count=int(wrong.sum()), elements=ours.size)
        if plan.by_network or plan.units.quantised:
            known = wrong if watched is None or watched.shape != ours.shape else ours != watched
            return told if wrong.mean() > LIMIT * known.mean() + _FLIPPED else None
        excused = self._excused()
        if excused is None:
            # Not known what it is decided by: then its sites were judged, or nothing excuses it.
            judged = plan.test is not None and watched is not None and bit_equal(watched, theirs)
            return None if judged else told
        count = int((wrong & ~excused).sum())
        return fact("output.numbers", count=count, elements=ours.size) if count else None

    def _excused(self) -> np.ndarray | None:
        """Elements that the network itself was within rounding of deciding as the twin does; None where unknown."""
        plan, tensor = self._plan, self._row.tensor
        graph = plan.graph
        if graph is None or tensor not in graph.producer:
            return None
        from twinnet.errors import EngineError
        from twinnet.judge.flips import Flipped
        from twinnet.layers import evaluate
        from twinnet.network.arrays import to_tensor

        floats = {n for n, d in graph.dtypes.items() if d.is_floating_point} - {tensor}
        layers, frontier = graph.segment([tensor], floats | set(graph.inputs))
        values = _inputs(plan, self._ends.sample)
        wanted = [n for n in frontier if n in graph.producer]
        try:
            exact = {**values, **evaluate(graph, values, keep=[*wanted, tensor])}
            if not set(frontier) <= set(exact):
                return None
            step = FAR * Rounding(plan.units.plain, len(graph.layers)).steps
            carried = {
                n: (exact[n].abs().max() * step).expand(exact[n].shape) for n in wanted if exact[n].numel()
            }
            known = {n: exact[n] for n in frontier}
            run = Flipped(graph, layers, known, carried, plan.units.plain)
            found = run.excused(tensor, exact[tensor], to_tensor(self._theirs))
        except EngineError:
            return None
        return found.numpy() if found.shape == self._ours.shape else None


def noise_of(plan: Plan, ends: Ends, flush: float = 0.0, *, shaken: bool = False) -> dict[str, np.ndarray]:
    """How far the network in its own precision is from itself in float64, at every element of each output.

    With `flush`, how far it would be from itself if numbers below that became 0; with `shaken`, if its inputs were
    rounded.
    """
    graph, net = plan.graph, plan.net
    if graph is None:
        return {}
    import torch

    from twinnet.layers import evaluate
    from twinnet.layers.kinds import UnknownLayer
    from twinnet.network.arrays import to_tensor

    tensors = [t for t in net.output_tensors if t in graph.producer]
    try:
        exact = evaluate(graph, _inputs(plan, ends.sample), keep=tensors)
        other: dict[str, torch.Tensor] = {}
        if flush or shaken:
            given = _inputs(plan, ends.sample)
            given = {n: _shaken(x, plan.units.plain) for n, x in given.items()} if shaken else given
            other = evaluate(graph, given, keep=tensors, flush=flush)
    except UnknownLayer:
        return {}
    found: dict[str, np.ndarray] = {}
    for tensor, array in zip(net.output_tensors, ends.ours.values(), strict=False):
        # Rounding is how far the watched run is from its own layers; an unwatched one may do other things.
        array = other[tensor].numpy() if tensor in other else ends.noisy.get(tensor, array)
        value = exact.get(tensor)
        if value is None or value.shape != array.shape or not value.numel():
            continue
        if not (value.is_floating_point() or value.is_complex()):
            continue
        off = (to_tensor(array).to(torch.complex128 if value.is_complex() else torch.float64) - value).abs()
        off = torch.stack([off, off], -1) if value.is_complex() else off
        found[tensor] = torch.where(off.isfinite(), off, 0.0).numpy()
    return found


def _shaken(x: torch.Tensor, unit: float) -> torch.Tensor:
    """Numbers, each off by up to one unit of rounding."""
    import torch

    if not x.is_floating_point():
        return x
    drawn = torch.rand(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return x.double() * (1 + unit * (2 * drawn - 1))


def bounded_outputs(plan: Plan) -> frozenset[str]:
    """Outputs of a softmax, a sigmoid and the like: their rounding is absolute, and most values may be near 0."""
    return frozenset(row.tensor for row in plan.outputs if absolute_scale(_kind(plan, row.tensor)))


def _kind(plan: Plan, tensor: str) -> str:
    """The kind of the layer that makes a tensor; empty where it is not known."""
    graph = plan.graph
    index = None if graph is None else graph.producer.get(tensor)
    return "" if graph is None or index is None else graph.layers[index].kind


def _inputs(plan: Plan, sample: Arrays) -> dict[str, torch.Tensor]:
    from twinnet.network.arrays import to_tensor

    return {tensor: to_tensor(array) for tensor, array in plan.by_tensor(sample).items()}


def _same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    return measure(_real(a), _real(b), Rounding(UNITS["float32"])).ratio <= 1


def _real(array: np.ndarray) -> np.ndarray:
    """Complex numbers by their two parts, along a last axis."""
    return np.stack([np.real(array), np.imag(array)], -1) if array.dtype.kind == "c" else array


def _part(apart: Apart, shape: tuple[int, ...]) -> Fact | None:
    if apart.ratio <= 1:
        return None
    whole = len(shape) < 2 or apart.axis >= len(shape) or shape[apart.axis] == 1
    where = () if whole else (apart.axis, apart.index)
    return fact("output.part", where=where, error=apart.error, scale=apart.scale)
