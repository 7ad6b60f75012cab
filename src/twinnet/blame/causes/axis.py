"""Axis: of a reduction, softmax, concatenation, selection or running sum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import ints
from twinnet.result import fact

_ONE = {
    "softmax", "log_softmax", "hardmax", "argmax", "argmin", "glu", "concat", "gather", "lp_norm", "topk", "sort",
    "stack", "split", "gather_elements",
}  # fmt: skip
_DEFAULT = {"gather": 0, "split": 0, "gather_elements": 0}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        x = problem.operand(i, 0)
        rank = x.dim() if isinstance(x, torch.Tensor) else 0
        if layer.kind in _ONE and rank > 1:
            ours = layer.attrs.get("axis", _DEFAULT.get(layer.kind, -1))
            if ours is None:
                continue
            for axis in range(rank):
                if axis != ours % rank:
                    found = fact("axis.another", operator=layer.kind, network=ours % rank, twin=axis)
                    yield changed("axis", found, i, axis=axis)
        elif layer.kind.startswith("reduce_") and rank:
            yield from _reduced(problem, i, layer, rank)
        elif layer.kind in ("cumsum", "cumprod"):
            for name in ("exclusive", "reverse"):
                ours = bool(layer.attrs.get(name, False))
                found = fact("axis.running", operator=layer.kind, attribute=name, network=ours, twin=not ours)
                yield changed("axis", found, i, **{name: not ours})


def _reduced(problem: Problem, i: int, layer: Layer, rank: int) -> Iterator[Candidate]:
    given = layer.attrs.get("axes")
    axes = ints(problem.operand(i, 1) if given is None else given)
    ours = tuple(range(rank)) if not axes else tuple(sorted(a % rank for a in axes))
    for count in range(1, rank + 1):
        for theirs in itertools.combinations(range(rank), count):
            if theirs != ours:
                yield Candidate(
                    kind="axis",
                    fact=fact("axis.reduced", network=ours, twin=theirs),
                    change=lambda p, t=theirs: _with_axes(p, i, t),
                )
    if layer.kind in ("reduce_var", "reduce_std"):
        c = layer.attrs.get("correction", 1)
        found = fact("normalisation.correction", network=c, twin=1 - c)
        yield changed("normalisation", found, i, correction=1 - c)


def _with_axes(problem: Problem, i: int, axes: tuple[int, ...]) -> Patch:
    if problem.layers[i].attrs.get("axes") is not None:
        return problem.change(i, axes=axes)
    return problem.give(i, 1, torch.tensor(axes))
