"""Weights: mirrored, transposed, one of them changed, one bit flipped, or those of another checkpoint."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family, plain
from twinnet.blame.causes.scale_bias import WEIGHT_PLACE, channel_axis
from twinnet.blame.problem import Problem
from twinnet.blame.pullback import pull_back
from twinnet.layers.graph import Layer


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind not in WEIGHT_PLACE:
            continue
        w = problem.constant(i, 1)
        if w is None:
            continue
        yield from _rearranged(i, layer, w)
        yield from _one(problem, i, layer, w)
        yield from _others(problem, i, layer, w)


def _rearranged(i: int, layer: Layer, w: torch.Tensor) -> Iterator[Candidate]:
    def candidate(words: str, how) -> Candidate:
        return Candidate("weights", words, lambda p: p.give(i, 1, how(p.constant(i, 1))))

    spatial = [a for a in range(2, w.dim()) if w.shape[a] > 1] if layer.kind.startswith("conv") else []
    for count in range(1, len(spatial) + 1):
        for axes in itertools.combinations(spatial, count):
            named = "both ways" if len(axes) == 2 == len(spatial) else f"along axis {plain(axes)}"
            yield candidate(f"the kernel is mirrored {named}", lambda v, a=axes: v.flip(a))
    for a, b in itertools.combinations(spatial, 2):
        if w.shape[a] == w.shape[b]:
            yield candidate("the kernel is transposed", lambda v, a=a, b=b: v.transpose(a, b))
    if w.dim() >= 2 and w.shape[0] == w.shape[1] > 1:
        words = "input and output channels of the weights are exchanged" if spatial or w.dim() > 2 else "the weights are transposed"
        yield Candidate("weights", words, lambda p: p.give(i, 1, p.constant(i, 1).transpose(0, 1)), whole=True)
    if w.dim() == 2 and w.shape[0] != w.shape[1]:
        words = "the weights are read in the other order (column by column)"
        yield Candidate("weights", words, lambda p: p.give(i, 1, w.t().reshape(w.shape)), whole=True)


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
    x = problem.operand(i, 0)
    grown = _gradients(layer, x, w, error, channel)
    if grown is None:
        return
    slope, power, place = grown
    at = int((slope * slope / power.clamp_min(1e-300)).argmax())
    energy = float((error.select(axis, channel) ** 2).sum())
    if float(slope[at] ** 2) < 0.99 * float(power[at]) * energy:
        return
    where = place(at)
    old, new = float(w[where]), float(w[where] + slope[at] / power[at])
    spot = plain(tuple(int(v) for v in where))
    for value, words, cost in _values(old, new):
        changed = w.clone()
        changed[where] = value
        sentence = f"weight {spot} is {plain(value)} where the network has {plain(old)}{words}"
        yield Candidate("weights", sentence, lambda p, v=changed: p.give(i, 1, v), old, value, cost, whole=True)


def _values(old: float, new: float) -> Iterator[tuple[float, str, float]]:
    (bits,) = struct.unpack("<I", struct.pack("<f", old))
    for bit in range(32):
        (flipped,) = struct.unpack("<f", struct.pack("<I", bits ^ (1 << bit)))
        if flipped == flipped and abs(flipped - new) <= 1e-4 * max(abs(new), abs(old) * 1e-2):
            yield flipped, f" (bit {bit} flipped)", 2.25
    yield new, "", 2.5


def _gradients(layer: Layer, x: torch.Tensor, w: torch.Tensor, error: torch.Tensor, channel: int):
    """Correlation of one channel's error with what each of its weights multiplies, and that one's energy."""
    if layer.kind == "conv" and w.dim() == 4 and not layer.attrs.get("auto_pad"):
        group = layer.attrs.get("group", 1)
        per = w.shape[0] // group
        first = channel // per * w.shape[1]
        part = x[:, first : first + w.shape[1]]
        pads = tuple(layer.attrs.get("pads") or (0, 0, 0, 0))
        part = torch.nn.functional.pad(part, (pads[1], pads[3], pads[0], pads[2]))
        strides, dilations = (tuple(layer.attrs.get(n) or (1, 1)) for n in ("strides", "dilations"))
        e = error[:, channel]
        slope, power = [], []
        for c, a, b in itertools.product(range(w.shape[1]), range(w.shape[2]), range(w.shape[3])):
            top, left = a * dilations[0], b * dilations[1]
            view = part[:, c, top :: strides[0], left :: strides[1]][:, : e.shape[1], : e.shape[2]]
            slope.append((view * e).sum())
            power.append((view * view).sum())
        shape = w.shape[1:]

        def place(at: int):
            return (channel, *(int(v) for v in torch.unravel_index(torch.tensor(at), shape)))

        return torch.stack(slope), torch.stack(power), place
    if layer.kind in ("matmul", "linear", "gemm") and w.dim() == 2 and not layer.attrs.get("trans_a"):
        rows = x.reshape(-1, x.shape[-1])
        e = error.reshape(-1, error.shape[-1])[:, channel]
        if len(e) != len(rows):
            return None
        outputs_first = layer.kind == "linear" or bool(layer.attrs.get("trans_b"))
        alpha = layer.attrs.get("alpha", 1.0)
        return (
            alpha * (rows * e[:, None]).sum(0),
            alpha * alpha * (rows * rows).sum(0),
            lambda at: (channel, at) if outputs_first else (at, channel),
        )
    return None


def _others(problem: Problem, i: int, layer: Layer, w: torch.Tensor) -> Iterator[Candidate]:
    """Quite other weights: solved from half of the places, believed if they predict the other half too."""
    back = pull_back(problem, i)
    if back is None or not bool(back[1].all()) or layer.attrs.get("auto_pad"):
        return
    x, t = problem.operand(i, 0), back[0]
    bias = problem.constant(i, 2)
    if layer.kind == "conv" and w.dim() == 4 and layer.attrs.get("group", 1) == 1:
        pads = tuple(layer.attrs.get("pads") or (0, 0, 0, 0))
        padded = torch.nn.functional.pad(x, (pads[1], pads[3], pads[0], pads[2]))
        strides, dilations = (tuple(layer.attrs.get(n) or (1, 1)) for n in ("strides", "dilations"))
        size = w[0].numel()
        if size > 512 or t.numel() // t.shape[1] < 3 * size:
            return
        rows = torch.nn.functional.unfold(padded, tuple(w.shape[2:]), dilation=dilations, stride=strides)
        rows = rows.transpose(1, 2).reshape(-1, size)
        aims = t.flatten(2).transpose(1, 2).reshape(-1, w.shape[0])
        shape, flip = w.shape, False
    elif layer.kind in ("matmul", "linear") and w.dim() == 2:
        rows, aims = x.reshape(-1, x.shape[-1]), t.reshape(-1, t.shape[-1])
        flip = layer.kind == "linear"
        shape = w.t().shape if flip else w.shape
        if rows.shape[1] > 512 or len(rows) < 3 * rows.shape[1]:
            return
    else:
        return
    if bias is not None and bias.dim() == 1:
        aims = aims - bias
    off = (problem.error.abs() > 4 * problem.floor).movedim(channel_axis(problem, len(problem.layers) - 1), 0)
    affected = off.reshape(off.shape[0], -1).any(1)
    if len(affected) != aims.shape[1]:
        return
    if len(rows) > 4 * rows.shape[1]:
        chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[: 3 * rows.shape[1]]
        rows, aims = rows[chosen], aims[chosen]
    found = torch.linalg.lstsq(rows, aims, driver="gelsd").solution
    made = found.t().reshape(shape) if layer.kind == "conv" else found
    made = made.t() if flip else made
    keep = affected.reshape(-1, *(1,) * (w.dim() - 1)) if layer.kind != "matmul" else affected
    made = torch.where(keep, made, w)
    some = int(affected.sum())
    where = f"in {some} of {len(affected)} channels" if some < len(affected) else "throughout, as from another checkpoint"
    yield Candidate("weights", f"other weights {where}", lambda p: p.give(i, 1, made), None, None, 8.0, whole=True)
