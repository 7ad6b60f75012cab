"""Axis: of a reduction, softmax, concatenation, selection or running sum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family, plain
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import ints

_ONE = {
    "softmax",
    "log_softmax",
    "hardmax",
    "argmax",
    "argmin",
    "glu",
    "concat",
    "gather",
    "lp_norm",
    "topk",
    "sort",
    "stack",
    "split",
    "gather_elements",
}
_SEVERAL = "reduce_"
_DEFAULT = {"gather": 0, "split": 0, "gather_elements": 0}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        rank = (
            problem.operand(i, 0).dim()
            if layer.inputs and isinstance(problem.operand(i, 0), torch.Tensor)
            else 0
        )
        if layer.kind in _ONE and rank > 1:
            ours = layer.attrs.get("axis", _DEFAULT.get(layer.kind, -1))
            if ours is None:
                continue
            for axis in range(rank):
                if axis != ours % rank:
                    called = layer.kind.replace("_", " ")
                    words = f"{called} over axis {axis} where the network uses axis {ours % rank}"
                    yield Candidate(
                        "axis", words, lambda p, i=i, a=axis: p.change(i, axis=a), ours % rank, axis
                    )
        elif layer.kind.startswith(_SEVERAL) and rank:
            yield from _reduced(problem, i, layer, rank)
        elif layer.kind in ("cumsum", "cumprod"):
            for name in ("exclusive", "reverse"):
                ours = bool(layer.attrs.get(name, False))
                state, other = (name, f"not {name}") if ours else (f"not {name}", name)
                words = f"{layer.kind} {other} where the network has it {state}"
                yield Candidate(
                    "axis", words, lambda p, i=i, n=name, o=ours: p.set(i, n, not o), ours, not ours
                )


def _reduced(problem: Problem, i: int, layer: Layer, rank: int) -> Iterator[Candidate]:
    given = layer.attrs.get("axes")
    axes = ints(problem.operand(i, 1) if given is None else given)
    ours = tuple(range(rank)) if not axes else tuple(sorted(a % rank for a in axes))
    for count in range(1, rank + 1):
        for theirs in itertools.combinations(range(rank), count):
            if theirs != ours:
                words = f"reduces over axes {plain(theirs)} where the network reduces over {plain(ours)}"
                yield Candidate("axis", words, lambda p, t=theirs: _with_axes(p, i, t), ours, theirs)
    if layer.kind in ("reduce_var", "reduce_std"):
        c = layer.attrs.get("correction", 1)
        words = f"divides by n - {1 - c} where the network divides by n - {c}"
        yield Candidate("normalisation", words, lambda p: p.change(i, correction=1 - c), c, 1 - c)


def _with_axes(problem: Problem, i: int, axes: tuple[int, ...]) -> Patch:
    if problem.layers[i].attrs.get("axes") is not None:
        return problem.change(i, axes=axes)
    return problem.give(i, 1, torch.tensor(axes))
