"""Positions: a slice, gather, roll or shift that starts elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family, plain
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import ints


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind == "slice":
            yield from _slice(problem, i, layer)
        elif layer.kind in ("gather", "gather_elements"):
            yield from _gather(problem, i, layer)
        elif layer.kind == "select":
            size = problem.operand(i, 0).shape[layer.attrs["axis"]]
            ours = int(layer.attrs["index"])
            for other in {ours - 1, ours + 1, 0, -1, size - 1} - {ours}:
                if -size <= other < size and (other - ours) % size:
                    words = f"takes position {other} where the network takes {ours}"
                    yield Candidate("index", words, lambda p, i=i, o=other: p.change(i, index=o), ours, other)
        elif layer.kind == "trilu":
            up = bool(layer.attrs.get("upper", True))
            kept, other = ("upper", "lower") if up else ("lower", "upper")
            words = f"keeps the {other} triangle where the network keeps the {kept}"
            yield Candidate("index", words, lambda p, i=i, u=up: p.change(i, upper=not u), up, not up)
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
            new_starts, new_ends = list(starts), list(ends)
            new_starts[k], new_ends[k] = b, e
            words = f"slices axis {axis} from {b} to {e} where the network slices from {begin} to {end}"

            def change(p: Problem, s=tuple(new_starts), t=tuple(new_ends)):
                return _sliced(p, i, s, t)

            yield Candidate("index", words, change, (begin, end), (b, e))


def _sliced(problem: Problem, i: int, starts: tuple[int, ...], ends: tuple[int, ...]) -> Patch:
    layer = problem.layers[i]
    if layer.attrs.get("starts") is not None:
        return problem.change(i, starts=starts, ends=ends)
    a, b = (f"{layer.outputs[0]}/{n}" for n in ("starts", "ends"))
    patch = problem.change(i, inputs=(layer.inputs[0], a, b, *layer.inputs[3:]))
    return Patch(i, i + 1, patch.layers, {a: torch.tensor(starts), b: torch.tensor(ends)})


def _gather(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x, at = problem.operand(i, 0), problem.operand(i, 1)
    if not isinstance(at, torch.Tensor) or at.is_floating_point() or not x.dim():
        return
    size = x.shape[layer.attrs.get("axis", 0)]
    for shift in (-2, -1, 1, 2):
        moved = at + shift
        for words, index in (("", moved.clamp(0, size - 1)), (", around the end", moved.remainder(size))):
            sentence = f"reads position i{shift:+d}{words} where the network reads i"
            yield Candidate(
                "index", sentence, lambda p, v=index: p.give(i, 1, v), "i", f"i{shift:+d}", whole=True
            )
    if at.dim() and at.numel() > 1:
        words = f"reads the positions in reverse order along axis {plain(at.dim() - 1)}"
        yield Candidate("index", words, lambda p: p.give(i, 1, at.flip(-1)), "i", "reversed", whole=True)


def _shifted(problem: Problem) -> Iterator[Candidate]:
    """The whole result moved by a place or two along an axis."""
    y, last = problem.expected, len(problem.layers) - 1
    if not problem.same_shape or y.dim() < 1:
        return
    for axis in range(y.dim()):
        if y.shape[axis] < 3:
            continue
        for shift in (-1, 1):
            words = f"has the result rolled by {shift} along axis {axis}"
            yield Candidate(
                "index",
                words,
                lambda p, a=axis, s=shift: p.then(last, "roll", shifts=(s,), axes=(a,)),
                0,
                shift,
                cost=1.25,
            )
