"""What the families of table causes share: the lookups of a segment by term, and how one is patched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.lut.variants import Lookup
from twinnet.result import Fact, fact

__all__ = ["Group", "candidate", "cells", "fewer_sites", "floors", "groups", "patched", "term_of"]

_SITES = 768
_WORTH = 2 * _SITES


def term_of(layer: Layer) -> Fact | None:
    """The term whose rotations a layer is one of, and which step of it; None for other layers."""
    if layer.kind not in ("lookup", "place") or ".rot" not in layer.node:
        return None
    return fact("tie.term", term=layer.node.rpartition(".rot")[0], step=layer.kind)


@dataclass(frozen=True)
class Group:
    """The lookups of one term that stand in a segment, side by side: indices of layers, and the first one's step."""

    where: tuple[int, ...]
    step: Lookup
    name: str


def groups(problem: Problem) -> Iterator[Group]:
    """The lookups of a segment by term."""
    found: dict[str, list[int]] = {}
    for i, layer in enumerate(problem.layers):
        if layer.kind == "lookup":
            found.setdefault(layer.node.rpartition(".rot")[0], []).append(i)
    for name, where in found.items():
        yield Group(tuple(where), problem.layers[where[0]].attrs["step"], name)


def patched(where: tuple[int, ...], make: Callable[[Any], Any]) -> Callable[[Problem], Patch]:
    """The layers `where` with their steps changed by `make`; what stands between them stays."""

    def change(problem: Problem) -> Patch:
        start, stop = where[0], where[-1] + 1
        layers = []
        for i in range(start, stop):
            layer = problem.layers[i]
            if i in where:
                step = make(layer.attrs["step"])
                inputs = step.registers if isinstance(step, Lookup) else layer.inputs
                layer = replace(layer, inputs=inputs, attrs={**layer.attrs, "step": step})
            layers.append(layer)
        return Patch(start, stop, tuple(layers))

    return change


def floors(problem: Problem) -> float:
    """How many noise floors of error a hypothesis may leave: 1 if entries have slack, 16 if only rounding is left."""
    steps = [layer.attrs["step"] for layer in problem.layers if layer.kind == "lookup"]
    return 1.0 if any(s.slack for s in steps) else 16.0


def candidate(
    problem: Problem,
    what: str,
    fact: Fact,
    where: tuple[int, ...],
    make: Callable[[Any], Any],
    **more: Any,
) -> Candidate:
    """A hypothesis about the steps `where`."""
    change = patched(where, make)
    return Candidate(kind="table", fact=fact, change=change, what=what, floors=floors(problem), **more)


def cells(problem: Problem) -> Fact | None:
    """Which cells of a table the wrong values come from, where they come from few."""
    if len(problem.layers) != 1 or problem.layers[0].kind != "lookup" or not problem.same_shape:
        return None
    step: Lookup = problem.layers[0].attrs["step"]
    registers = {n: problem.values[n].numpy().round().astype(np.int64) for n in step.registers}
    bins, _ = step.bins(step.values(registers), step.term.units(step.table), step.table.nodes)
    wrong = (problem.error.abs() > problem.floor).any(dim=1).reshape(-1).numpy()
    if not wrong.any() or wrong.all():
        return None
    taps = []
    for axis, own in enumerate(bins):
        there, all_bins = np.unique(own[wrong]), np.unique(own)
        if len(there) <= len(all_bins) // 2:
            taps.append((axis, tuple(int(b) for b in there[:5])))
    return fact("table.cells", taps=tuple(taps[:2])) if taps else None


def fewer_sites(problem: Problem) -> Problem | None:
    """The problem at some of its sites, wrong ones and right ones, so that many ways can be tried quickly."""
    if len(problem.layers) != 1 or problem.layers[0].kind != "lookup" or not problem.same_shape:
        return None
    planes, payload, rows, columns = problem.got.shape
    if planes * rows * columns < _WORTH:
        return None
    wrong = (problem.error.abs() > problem.floor).any(dim=1).reshape(-1).numpy()
    rng = np.random.default_rng(0)
    chosen: list[np.ndarray] = []
    for sites in (np.flatnonzero(wrong), np.flatnonzero(~wrong)):
        chosen.append(rng.permutation(sites)[: _SITES // 2])
    sites = np.sort(np.concatenate(chosen))
    layer = problem.layers[0]
    step = replace(layer.attrs["step"], sites=sites)
    flat = problem.got.permute(0, 2, 3, 1).reshape(-1, payload)[torch.from_numpy(sites)]
    return replace(
        problem,
        layers=(replace(layer, attrs={**layer.attrs, "step": step}),),
        got=flat[:, :, None, None],
        twin=None,
    )
