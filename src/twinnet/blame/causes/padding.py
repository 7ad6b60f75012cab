"""Padding: another split of the same total, another total, mode or value."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import ints
from twinnet.result import fact

_WINDOWED = {"conv", "conv_transpose", "max_pool", "average_pool", "lp_pool"}
_MODES = ("reflect", "edge", "wrap")


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind in _WINDOWED:
            yield from _window(problem, i, layer)
        elif layer.kind == "pad":
            yield from _pad(problem, i, layer)


def by_axis(pads: tuple[int, ...]) -> tuple[object, ...]:
    """Begins and ends per axis; one pair where all axes agree."""
    k = len(pads) // 2
    pairs = [(pads[a], pads[k + a]) for a in range(k)]
    return pairs[0] if len(set(pairs)) == 1 else tuple(pairs)


def _window(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x = problem.tensor(i, 0)
    spatial = x.dim() - 2
    if layer.attrs.get("auto_pad") or layer.attrs.get("output_shape"):
        return
    pads = tuple(layer.attrs.get("pads") or (0,) * 2 * spatial)
    begins, ends = pads[:spatial], pads[spatial:]
    reach = 2 if spatial <= 2 else 1
    shifts = sorted(
        itertools.product(range(-reach, reach + 1), repeat=spatial), key=lambda s: sum(map(abs, s))
    )
    tried: set[tuple[int, ...]] = {pads}
    moves = [(s, tuple(-v for v in s)) for s in shifts]
    if not problem.same_shape:
        moves = [(b, e) for b in shifts for e in shifts] if spatial <= 2 else moves
    for low, high in moves:
        other = (*(b + d for b, d in zip(begins, low)), *(e + d for e, d in zip(ends, high)))
        if min(other) < 0 or other in tried:
            continue
        tried.add(other)
        found = fact("padding.pads", network=by_axis(pads), twin=by_axis(other))
        yield changed("padding", found, i, pads=other)
    if layer.kind == "conv" and any(pads):
        for mode in _MODES:
            yield Candidate(
                kind="padding",
                fact=fact("padding.mode", network="zeros", twin=mode),
                change=lambda p, m=mode: _padded(p, i, pads, m),
            )


def _padded(problem: Problem, i: int, pads: tuple[int, ...], mode: str) -> Patch:
    k = len(pads) // 2
    full = (0, 0, *pads[:k], 0, 0, *pads[k:])
    before, after = problem.first(i, 0, "pad", pads=full, mode=mode).layers
    return Patch(i, i + 1, (before, replace(after, attrs={**after.attrs, "pads": (0,) * 2 * k})))


def _pad(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    mode = layer.attrs.get("mode", "constant")
    for other in ("constant", *_MODES):
        if other != mode:
            yield changed("padding", fact("padding.mode", network=mode, twin=other), i, mode=other)
    given = layer.attrs.get("pads")
    pads = ints(problem.operand(i, 1) if given is None else given)
    if pads is None:
        return
    k = len(pads) // 2
    for axis in range(k):
        for shift in (-2, -1, 1, 2):
            other = list(pads)
            other[axis] += shift
            other[k + axis] -= shift
            if other[axis] < 0 or other[k + axis] < 0:
                continue
            ours, theirs = (pads[axis], pads[k + axis]), (other[axis], other[k + axis])
            yield Candidate(
                kind="padding",
                fact=fact("padding.of_axis", axis=axis, network=ours, twin=theirs),
                change=lambda p, o=tuple(other): _with_pads(p, i, o),
            )
    for other in _all_axes(pads) if i + 1 < len(problem.layers) else ():
        used = [a for a in range(k) if pads[a] or pads[k + a] or other[a] or other[k + a]]
        ours, theirs = (by_axis((*(p[a] for a in used), *(p[k + a] for a in used))) for p in (pads, other))
        yield Candidate(
            kind="padding",
            fact=fact("padding.pads", network=ours, twin=theirs),
            change=lambda p, o=other: _with_pads(p, i, o),
        )
    if mode == "constant":
        yield from _clipped(problem, i, layer)
        yield from _value(problem, i, layer)


def _all_axes(pads: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Other pads of all axes at once: "SAME" of TensorFlow with both sides alike, or the odd one before; and back.

    With a stride, the layer behind it gives the same size for them.
    """
    k = len(pads) // 2
    begins, ends = tuple(pads[:k]), tuple(pads[k:])
    most = tuple(map(max, begins, ends))
    less = tuple(max(b - 1, 0) if b == e else b for b, e in zip(begins, ends))
    for other in ((*most, *most), (*ends, *begins), (*less, *ends)):
        if other != (*begins, *ends):
            yield other


def _with_pads(problem: Problem, i: int, pads: tuple[int, ...]) -> Patch:
    layer = problem.layers[i]
    if layer.attrs.get("pads") is not None:
        return problem.change(i, pads=pads)
    return problem.give(i, 1, torch.tensor(pads))


def _old_value(problem: Problem, i: int, layer: Layer) -> float:
    old = layer.attrs.get("value")
    old = problem.operand(i, 2) if old is None else old
    return 0.0 if old is None else float(old)


def _clipped(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    """A quantised twin that pads integers: a value outside the range of their steps becomes its end."""
    steps = problem.steps.get(layer.inputs[0] or "")
    if steps is None:
        return
    ours, (low, high) = _old_value(problem, i, layer), steps.range
    theirs = min(max(ours, low), high)
    if theirs != ours:
        yield Candidate(
            kind="padding",
            fact=fact("padding.clipped", network=ours, twin=theirs, range=(low, high)),
            change=lambda p: _with_value(p, i, theirs),
            static=True,
        )


def _value(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    """The one value the twin has wherever it differs."""
    if i != len(problem.layers) - 1 or not problem.same_shape:
        return
    places = problem.error != 0
    if not bool(places.any()):
        return
    there = problem.wanted[places]
    if float(there.min()) != float(there.max()):
        return
    new = float(there[0])
    ours = _old_value(problem, i, layer)
    yield Candidate(
        kind="padding",
        fact=fact("padding.value", network=ours, twin=new),
        change=lambda p: _with_value(p, i, new),
        cost=1.5,
    )


def _with_value(problem: Problem, i: int, value: float) -> Patch:
    layer = problem.layers[i]
    if len(layer.inputs) > 2 and layer.inputs[2] is not None:
        return problem.give(i, 2, torch.tensor(value, dtype=torch.float64))
    return problem.change(i, value=value)
