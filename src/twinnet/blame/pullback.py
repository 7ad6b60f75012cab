"""Works back from the twin's output of a segment to the value it must have had after an earlier layer.

This goes through operators that can be undone (adding a constant, ReLU where it is open, a sigmoid away from its
ends, moves); elements for which they cannot be undone are masked. What comes out proposes hypotheses and
proves none: each is computed forwards again.
"""

from __future__ import annotations

import torch

from twinnet.blame.problem import Problem
from twinnet.layers import kinds

__all__ = ["pull_back"]

_MOVES = {
    "reshape", "flatten", "transpose", "squeeze", "unsqueeze", "split", "slice", "select", "flip", "roll",
    "depth_to_space", "space_to_depth",
}  # fmt: skip
"""Kinds whose every result is one element of the first operand, no element twice."""


def pull_back(problem: Problem, index: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The output that layer `index` must have had in the twin, and where it is known; None if nowhere."""
    if not problem.same_shape or not problem.is_float:
        return None
    value = problem.wanted
    mask = value.isfinite() & problem.expected.isfinite()
    if index == len(problem.layers) - 1:
        return (value, mask) if bool(mask.any()) else None
    name = problem.target
    producer = {n: i for i, layer in enumerate(problem.layers) for n in layer.outputs}
    while (at := producer.get(name)) is not None and at != index:
        layer = problem.layers[at]
        place = _data_place(problem, at)
        if place is None:
            return None
        source = layer.inputs[place]
        if source is None:
            return None
        if layer.kind in _MOVES and place == 0:
            value, mask = _moved_back(problem, at, name, value, mask)
            name = source
            continue
        undone, name = _undo(problem, at, place, value), source
        if undone is None or problem.values[name].shape != value.shape:
            return None
        value, open_ = undone
        mask = mask & open_ & value.isfinite()
    return (value, mask) if at == index and bool(mask.any()) else None


def _data_place(problem: Problem, index: int) -> int | None:
    """The one operand that varies with the segment; None if there are several."""
    layer = problem.layers[index]
    varying = [p for p, n in enumerate(layer.inputs) if n is not None and n not in problem.constants]
    inner = {n for earlier in problem.layers[:index] for n in earlier.outputs}
    found = [p for p in varying if layer.inputs[p] in inner]
    return found[0] if len(found) == 1 else None


def _moved_back(
    problem: Problem, at: int, name: str, y: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The operand of a move by its result `name`; elements that did not get there are unknown."""
    layer = problem.layers[at]
    x = problem.tensor(at, 0)
    places = torch.arange(x.numel()).reshape(x.shape)
    others = [problem.operand(at, place) for place in range(1, len(layer.inputs))]
    moved = kinds.get(layer.kind).evaluate(layer.attrs, places, *others)[layer.outputs.index(name)]
    back, known = x.clone().reshape(-1), torch.zeros(x.numel(), dtype=torch.bool)
    back[moved.reshape(-1)] = y.reshape(-1)
    known[moved.reshape(-1)] = mask.reshape(-1)
    return back.reshape(x.shape), known.reshape(x.shape)


def _undo(problem: Problem, at: int, place: int, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The operand at `place` that makes layer `at` output `y`, and where it is determined."""
    layer = problem.layers[at]
    kind, attrs = layer.kind, layer.attrs
    other = problem.operand(at, 1 - place) if len(layer.inputs) > 1 and place < 2 else None
    everywhere = torch.ones_like(y, dtype=torch.bool)
    if kind == "identity":
        return y, everywhere
    if kind == "relu":
        return y, y > 0
    if kind == "clip":
        low, high = (
            problem.operand(at, p) if attrs.get(n) is None else attrs[n] for p, n in ((1, "min"), (2, "max"))
        )
        mask = everywhere
        if low is not None:
            mask = mask & (y > low)
        if high is not None:
            mask = mask & (y < high)
        return y, mask
    if kind == "leaky_relu":
        alpha = attrs.get("alpha", 0.01)
        return torch.where(y > 0, y, y / alpha if alpha else y), (y > 0) | (alpha > 0)
    if kind == "hard_sigmoid":
        alpha, beta = attrs.get("alpha", 0.2), attrs.get("beta", 0.5)
        return (y - beta) / alpha, (y > 0) & (y < 1)
    if kind == "sigmoid":
        return torch.logit(y), (y > 1e-3) & (y < 1 - 1e-3)
    if kind == "tanh":
        return torch.atanh(y), y.abs() < 1 - 1e-3
    if kind in ("softmax", "log_softmax"):
        # Known but for a number per row: the one with which most of the row is what the network has there.
        x = problem.tensor(at, place)
        logs = y.log() if kind == "softmax" else y
        return logs + (x - logs).median(attrs.get("axis", -1), keepdim=True).values, logs > -60
    if kind == "hard_swish":
        root = (-3 + torch.sqrt((9 + 24 * y).clamp_min(0))) / 2
        return torch.where(y >= 3, y, root), y > 0
    if kind == "batch_norm":
        scale, bias, mean, var = (problem.operand(at, p) for p in (1, 2, 3, 4))
        rate = torch.rsqrt(var + attrs.get("eps", 1e-5)) * (1.0 if scale is None else scale)
        shape = (1, -1, *(1,) * (y.dim() - 2))
        offset = (0.0 if bias is None else bias) - mean * rate
        return (y - offset.reshape(shape)) / rate.reshape(shape), everywhere & (
            rate.reshape(shape).abs() > 1e-12
        )
    if isinstance(other, torch.Tensor) and other.is_floating_point():
        if kind == "add" and attrs.get("alpha", 1) == 1:
            return y - other, everywhere
        if kind == "sub" and attrs.get("alpha", 1) == 1:
            return (y + other if place == 0 else other - y), everywhere
        if kind == "mul":
            return y / other, everywhere & (other != 0)
        if kind == "div" and place == 0 and not attrs.get("rounding"):
            return y * other, everywhere
    return None
