"""Weights: mirrored, transposed, one of them changed, one bit flipped, or those of another checkpoint."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator

import torch

from twinnet.blame.causes.family import Candidate, NotApplicable, family
from twinnet.blame.causes.scale_bias import WEIGHTED, channel_axis
from twinnet.blame.problem import Patch, Problem
from twinnet.blame.pullback import pull_back
from twinnet.layers.graph import Layer
from twinnet.result import Fact, fact

_MOST = 512
"""Solved for no more unknowns per channel: time grows with their cube."""
_POSITIONS = 4
"""Positions per unknown that weights are solved from; the others test the answer."""
_CLEARLY = 4.0
"""How many times as much of the error any other weight must leave for one to be named."""
_ENOUGH = 1.1
"""Different positions per unknown that must be there: what is left over tests the answer."""


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind not in WEIGHTED:
            continue
        w = problem.constant(i, 1)
        if w is None:
            continue
        yield from _rearranged(i, layer, w)
        yield from _one(problem, i, layer, w)
        yield from _others(problem, i, layer, w)


def _rearranged(i: int, layer: Layer, w: torch.Tensor) -> Iterator[Candidate]:
    def turned(found: Fact, how: Callable[[torch.Tensor], torch.Tensor], *, whole: bool = False) -> Candidate:
        change = lambda p: p.give(i, 1, how(p.constant(i, 1)))  # noqa: E731
        return Candidate(kind="weights", fact=found, change=change, whole=whole)

    spatial = [a for a in range(2, w.dim()) if w.shape[a] > 1] if layer.kind.startswith("conv") else []
    for count in range(1, len(spatial) + 1):
        for axes in itertools.combinations(spatial, count):
            both = len(axes) == 2 == len(spatial)
            yield turned(fact("weights.mirrored", axes=axes, both=both), lambda v, a=axes: v.flip(a))
    for a, b in itertools.combinations(spatial, 2):
        if w.shape[a] == w.shape[b]:
            found = fact("weights.transposed", what="kernel")
            yield turned(found, lambda v, a=a, b=b: v.transpose(a, b))
    if w.dim() >= 2 and w.shape[0] == w.shape[1] > 1:
        what = "channels" if spatial or w.dim() > 2 else "matrix"
        yield turned(fact("weights.transposed", what=what), lambda v: v.transpose(0, 1), whole=True)
    if w.dim() == 2 and w.shape[0] != w.shape[1]:
        yield turned(fact("weights.by_column"), lambda v: v.t().reshape(v.shape), whole=True)


def _one(problem: Problem, i: int, layer: Layer, w: torch.Tensor) -> Iterator[Candidate]:
    """One weight: the error of its channel is the shifted input times one number."""
    back = pull_back(problem, i)
    if back is None:
        return
    y = problem.out(i)
    error = torch.where(back[1], back[0] - y, 0.0)
    axis = channel_axis(problem, i)
    sizes = error.abs().amax([a for a in range(error.dim()) if a != axis])
    channel = int(sizes.argmax())
    x = problem.tensor(i, 0)
    grown = _gradients(layer, x, w, error, channel, back[1])
    if grown is None:
        return
    slope, power, place = grown
    energy = float((error.select(axis, channel) ** 2).sum())
    rest = 1 - slope * slope / (power * energy).clamp_min(
        1e-300
    )  # of the error, by the weight that explains it
    at = int(rest.argmin())
    as_well = rest <= max(_CLEARLY * float(rest[at]), 1e-9)
    if float(rest[at]) > 0.01 or int(as_well.sum()) > 1:
        return  # at one position any weight does, and so does the bias
    where = place(at)
    old, new = float(w[where]), float(w[where] + slope[at] / power[at])
    for value, bit, cost in _values(old, new):
        changed = w.clone()
        changed[where] = value
        yield Candidate(
            kind="weights",
            fact=fact("weights.one", index=tuple(int(v) for v in where), network=old, twin=value, bit=bit),
            change=lambda p, v=changed: p.give(i, 1, v),
            cost=cost,
            whole=True,
            fitted=int(bit is None),
        )


def _values(old: float, new: float) -> Iterator[tuple[float, int | None, float]]:
    (bits,) = struct.unpack("<I", struct.pack("<f", old))
    for bit in range(32):
        (flipped,) = struct.unpack("<f", struct.pack("<I", bits ^ (1 << bit)))
        if flipped == flipped and abs(flipped - new) <= 1e-4 * max(abs(new), abs(old) * 1e-2):
            yield flipped, bit, 2.25
    yield new, None, 2.5


def _gradients(
    layer: Layer, x: torch.Tensor, w: torch.Tensor, error: torch.Tensor, channel: int, known: torch.Tensor
):
    """Correlation of one channel's error with what each of its weights multiplies, and that one's energy, where
    the error is known.
    """
    if layer.kind == "conv" and w.dim() == 4 and not layer.attrs.get("auto_pad"):
        group = layer.attrs.get("group", 1)
        per = w.shape[0] // group
        first = channel // per * w.shape[1]
        part = x[:, first : first + w.shape[1]]
        pads = tuple(layer.attrs.get("pads") or (0, 0, 0, 0))
        part = torch.nn.functional.pad(part, (pads[1], pads[3], pads[0], pads[2]))
        strides, dilations = (tuple(layer.attrs.get(n) or (1, 1)) for n in ("strides", "dilations"))
        e, seen = error[:, channel], known[:, channel]
        slope, power = [], []
        for c, a, b in itertools.product(range(w.shape[1]), range(w.shape[2]), range(w.shape[3])):
            top, left = a * dilations[0], b * dilations[1]
            view = part[:, c, top :: strides[0], left :: strides[1]][:, : e.shape[1], : e.shape[2]]
            slope.append((view * e).sum())
            power.append((view * view * seen).sum())
        shape = w.shape[1:]

        def place(at: int):
            return (channel, *(int(v) for v in torch.unravel_index(torch.tensor(at), shape)))

        return torch.stack(slope), torch.stack(power), place
    if layer.kind in ("matmul", "linear", "gemm") and w.dim() == 2 and not layer.attrs.get("trans_a"):
        rows = x.reshape(-1, x.shape[-1])
        e, seen = (v.reshape(-1, v.shape[-1])[:, channel] for v in (error, known))
        if len(e) != len(rows):
            return None
        outputs_first = layer.kind == "linear" or bool(layer.attrs.get("trans_b"))
        alpha = layer.attrs.get("alpha", 1.0)
        return (
            alpha * (rows * e[:, None]).sum(0),
            alpha * alpha * (rows * rows * seen[:, None]).sum(0),
            lambda at: (channel, at) if outputs_first else (at, channel),
        )
    return None


def _others(problem: Problem, i: int, layer: Layer, w: torch.Tensor) -> Iterator[Candidate]:
    """Entirely different weights: solved from some positions, believed if they predict all others too."""
    back = pull_back(problem, i)
    if back is None or not bool(back[1].all()) or layer.attrs.get("auto_pad"):
        return
    t, axis = back[0], channel_axis(problem, i)
    bias = problem.constant(i, 2)
    if bias is not None and bias.dim() == 1:
        t = t - bias.reshape([-1 if a == axis else 1 for a in range(t.dim())])
    off = (
        (back[0] - problem.out(i)).abs() > 4 * problem.floor if problem.floor.shape == t.shape else back[1]
    ).movedim(axis, 0)
    affected = off.reshape(off.shape[0], -1).any(1)
    aims = t.movedim(axis, -1).reshape(-1, t.shape[axis])

    def change(p: Problem) -> Patch:
        made = _solved(layer, p.operand(i, 0), aims, w, affected)
        if made is None:
            raise NotApplicable("too few places to solve for the weights")
        return p.give(i, 1, made)

    some = int(affected.sum())
    yield Candidate(
        kind="weights",
        fact=fact("weights.other", channels=some, count=len(affected)),
        change=change,
        cost=8.0,
        whole=True,
    )


def _solved(
    layer: Layer, x: torch.Tensor, aims: torch.Tensor, w: torch.Tensor, affected: torch.Tensor
) -> torch.Tensor | None:
    """The weights that turn the data into `aims` (positions x channels), for the affected channels; None if
    undetermined.
    """
    made = w.clone()
    if layer.kind == "conv" and w.dim() == 4:
        size, group = w[0].numel(), layer.attrs.get("group", 1)
        if size > _MOST:
            return None
        pads = tuple(layer.attrs.get("pads") or (0, 0, 0, 0))
        padded = torch.nn.functional.pad(x, (pads[1], pads[3], pads[0], pads[2]))
        strides, dilations = (tuple(layer.attrs.get(n) or (1, 1)) for n in ("strides", "dilations"))
        per = w.shape[0] // group
        for g in range(group):
            mine = [c for c in range(g * per, (g + 1) * per) if affected[c]]
            if not mine:
                continue
            part = padded[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            rows = torch.nn.functional.unfold(part, tuple(w.shape[2:]), dilation=dilations, stride=strides)
            rows = rows.transpose(1, 2).reshape(-1, size)
            found = _least_squares(rows, aims[:, mine])
            if found is None:
                return None
            made[mine] = found.t().reshape(len(mine), *w.shape[1:])
        return made
    if layer.kind in ("matmul", "linear") and w.dim() == 2:
        rows = x.reshape(-1, x.shape[-1])
        found = _least_squares(rows, aims) if rows.shape[1] <= _MOST else None
        if found is None:
            return None
        if layer.kind == "linear":
            return torch.where(affected[:, None], found.t(), w)
        return torch.where(affected, found, w)
    return None


def _least_squares(rows: torch.Tensor, aims: torch.Tensor) -> torch.Tensor | None:
    """The solution, from no more positions than it takes; None unless some are left over to test it.

    As many different positions as unknowns fit any result whatever. Positions that see the same data count once.
    """
    if len(rows) != len(aims):
        return None
    most = max(_POSITIONS * rows.shape[1], 64)
    if len(rows) > most:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
        rows, aims = rows[order], aims[order]
    found = torch.linalg.lstsq(rows, aims, driver="gelsd")
    if len(torch.unique(rows, dim=0)) < _ENOUGH * int(found.rank):
        return None
    return found.solution
