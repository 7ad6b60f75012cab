"""Positions: a slice, gather, roll or shift that starts elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import ints
from twinnet.result import fact


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind == "slice":
            yield from _slice(problem, i, layer)
        elif layer.kind in ("gather", "gather_elements"):
            yield from _gather(problem, i, layer)
        elif layer.kind == "select":
            size = problem.tensor(i, 0).shape[layer.attrs["axis"]]
            ours = int(layer.attrs["index"])
            for other in {ours - 1, ours + 1, 0, -1, size - 1} - {ours}:
                if -size <= other < size and (other - ours) % size:
                    yield changed("index", fact("index.position", network=ours, twin=other), i, index=other)
        elif layer.kind == "trilu":
            up = bool(layer.attrs.get("upper", True))
            yield changed("index", fact("index.triangle", network=up, twin=not up), i, upper=not up)
    yield from _shifted(problem)


def _slice(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    def read(name: str, place: int):
        value = layer.attrs.get(name)
        return ints(problem.operand(i, place) if value is None else value)

    starts, ends = read("starts", 1), read("ends", 2)
    if starts is None or ends is None:
        return
    axes, steps = read("axes", 3), read("steps", 4)
    x = problem.operand(i, 0)
    for k in range(len(starts)):
        axis = axes[k] % x.dim() if axes else k
        size = x.shape[axis]
        step = steps[k] if steps else 1
        begin = starts[k] + size if starts[k] < 0 else min(starts[k], size)
        end = ends[k] + size if -size <= ends[k] < 0 else min(ends[k], size)
        for shift in (-3, -2, -1, 1, 2, 3):
            b, e = begin + shift, end + shift
            if b < 0 or e > size or step < 1:
                continue
            moved = (*starts[:k], b, *starts[k + 1 :]), (*ends[:k], e, *ends[k + 1 :])
            yield Candidate(
                kind="index",
                fact=fact("index.slice", axis=axis, network=(begin, end), twin=(b, e)),
                change=lambda p, m=moved: _sliced(p, i, *m),
            )


def _sliced(problem: Problem, i: int, starts: tuple[int, ...], ends: tuple[int, ...]) -> Patch:
    layer = problem.layers[i]
    if layer.attrs.get("starts") is not None:
        return problem.change(i, starts=starts, ends=ends)
    a, b = (f"{layer.outputs[0]}/{n}" for n in ("starts", "ends"))
    patch = problem.change(i, inputs=(layer.inputs[0], a, b, *layer.inputs[3:]))
    return Patch(i, i + 1, patch.layers, {a: torch.tensor(starts), b: torch.tensor(ends)})


def _gather(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x, at = problem.tensor(i, 0), problem.operand(i, 1)
    if not isinstance(at, torch.Tensor) or at.is_floating_point() or not x.dim():
        return
    size = x.shape[layer.attrs.get("axis", 0)]
    for shift in (-2, -1, 1, 2):
        moved = at + shift
        for around, index in ((False, moved.clamp(0, size - 1)), (True, moved.remainder(size))):
            yield Candidate(
                kind="index",
                fact=fact("index.shifted", network="i", twin=f"i{shift:+d}", around=around),
                change=lambda p, v=index: p.give(i, 1, v),
                whole=True,
            )
    if at.dim() and at.numel() > 1:
        yield Candidate(
            kind="index",
            fact=fact("index.reversed", network="i", twin="reversed", axis=at.dim() - 1),
            change=lambda p: p.give(i, 1, at.flip(-1)),
            whole=True,
        )


def _shifted(problem: Problem) -> Iterator[Candidate]:
    """The whole result moved by a place or two along an axis."""
    y, last = problem.expected, len(problem.layers) - 1
    if not problem.same_shape or y.dim() < 1:
        return
    for axis in range(y.dim()):
        if y.shape[axis] < 3:
            continue
        for shift in (-1, 1):
            yield Candidate(
                kind="index",
                fact=fact("index.rolled", network=0, twin=shift, axis=axis),
                change=lambda p, a=axis, s=shift: p.then(last, "roll", shifts=(s,), axes=(a,)),
                cost=1.25,
            )
