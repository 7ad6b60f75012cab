"""Wrong declarations of a quantised twin: weights off by more than half a step, a range too small, steps that differ
between writing and reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from twinnet.blame.causes.family import Candidate, NotApplicable, family
from twinnet.blame.fitting import nice
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.layers import kinds
from twinnet.pairing import Transform
from twinnet.result import Fact, fact

if TYPE_CHECKING:
    from twinnet.judge.expectation import KeptWeight

_SLACK = 1.02
_BLOCK = 32


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if not problem.same_shape:
        return
    yield from _data(problem)
    kept = problem.kept
    if kept is None:
        return
    wrong = [w for w in kept.weights if bool(((w.theirs - w.ours).abs() > _SLACK * w.half).any())]
    for weight in wrong:
        yield _said(_about(weight), _with(weight))
    yield from _range(problem)
    yield from _below(problem)
    for name, written, read in kept.read:
        yield _said(_other_steps(written, read), _read_as(name, written, read))
    yield from _softmax(problem)


def _said(found: Fact, change: Callable[[Problem], Patch]) -> Candidate:
    return Candidate(kind="quantisation", fact=found, change=change, whole=True, static=True)


# -- weights -----------------------------------------------------------------------------------------------------------


def _with(weight: KeptWeight) -> Callable[[Problem], Patch]:
    return lambda p: p.give(weight.layer, weight.place, weight.theirs)


def _about(w: KeptWeight) -> Fact:
    """What is wrong with a weight, with a value of each side."""
    beyond = (w.theirs - w.ours).abs() > _SLACK * w.half
    channels = _channels(beyond)
    one = None if len(channels) > 1 or beyond.dim() < 2 else channels[0]
    where: dict[str, object] = {"of": "bias" if w.place == 2 else "weights", "channel": one}
    picked = beyond if len(channels) > 1 else _channel(beyond, channels[0])
    a, b, half = w.ours[picked], w.theirs[picked], w.half[picked]
    if bool((w.ends[beyond] & (w.theirs[beyond].abs() < w.ours[beyond].abs())).all()):
        top, reach = float(w.theirs[beyond].abs().max()), float(w.ours[beyond].abs().max())
        return fact("steps.saturated", **where, network=reach, twin=top)
    ratio = float((a * b).sum() / (a * a).sum()) if bool(a.any()) else 1.0
    if _fits(b, a * ratio, half * max(abs(ratio), 1.0)):
        return fact("steps.scale", **where, network=1.0, twin=nice(ratio, 5e-3) or ratio)
    shift = float(((b - a) / (2 * half)).median())
    if _fits(b, a + round(shift) * 2 * half, half) and round(shift):
        return fact("steps.zero_point", **where, network=0, twin=-round(shift))
    count = int(beyond.sum())
    if count == 1:
        ours, theirs = float(w.ours[beyond]), float(w.theirs[beyond])
        return fact("steps.one", **where, network=ours, twin=theirs)
    worst = float(((w.theirs - w.ours).abs() / w.half).max()) / 2
    return fact("steps.beyond", **where, count=count, network=0.5, twin=worst)


def _fits(got: torch.Tensor, made: torch.Tensor, half: torch.Tensor) -> bool:
    return bool(((got - made).abs() <= 1.1 * half).double().mean() > 0.99)


def _channels(beyond: torch.Tensor) -> list[int]:
    """Output channels with a weight that is too far off."""
    rows = beyond.reshape(beyond.shape[0], -1).any(1)
    return rows.nonzero().reshape(-1).tolist()


def _channel(beyond: torch.Tensor, channel: int) -> torch.Tensor:
    picked = torch.zeros_like(beyond)
    picked[channel] = True
    return picked


# -- results and data --------------------------------------------------------------------------------------------------


def _range(problem: Problem) -> Iterator[Candidate]:
    """A range too small for the network's own values."""
    kept = problem.kept
    if kept is None or kept.step is None or kept.own is None or not kept.own.size:
        return
    low, high = kept.step.range
    least, most = float(kept.own.min()), float(kept.own.max())
    if least >= low and most <= high:
        return
    last = len(problem.layers) - 1
    yield _said(
        fact("steps.range", network=(least, most), twin=(low, high)),
        lambda p: p.then(last, "identity"),  # a result is always held within the range
    )


def _below(problem: Problem) -> Iterator[Candidate]:
    """A range that replaces a ReLU and does not begin at 0."""
    step, last = None if problem.kept is None else problem.kept.step, len(problem.layers) - 1
    if step is None or len(step.zero) != 1 or problem.layers[last].kind != "relu" or step.range[0] >= 0:
        return
    least = int(torch.iinfo(getattr(torch, step.dtype)).min)
    low, high = step.range
    found = fact("steps.below", network=least, twin=step.zero[0], low=low, high=high)
    yield _said(found, lambda p: p.drop(last))


def _other_steps(written: Transform, read: Transform) -> Fact:
    if written.scale != read.scale and len(written.scale or ()) == len(read.scale or ()) == 1:
        ratio = (read.scale or (1.0,))[0] / (written.scale or (1.0,))[0]
        return fact("steps.read_scale", network=1.0, twin=ratio)
    if written.zero != read.zero and len(written.zero) == len(read.zero) == 1:
        ours, theirs = written.zero[0], read.zero[0]
        return fact("steps.read_zero_point", network=ours, twin=theirs)
    return fact("steps.read_otherwise")


def _read_as(name: str, written: Transform, read: Transform) -> Callable[[Problem], Patch]:
    def again(x: torch.Tensor) -> tuple[torch.Tensor]:
        s, z, other, offset = (
            torch.as_tensor(t.along(values, x.dim()), dtype=torch.float64)
            for t, values in (
                (written, written.scale or (1.0,)),
                (written, written.zero),
                (read, read.scale or (1.0,)),
                (read, read.zero),
            )
        )
        return ((x.clamp(*written.range) / s + z - offset) * other,)

    def change(problem: Problem) -> Patch:
        if name == problem.target:
            return problem.then(len(problem.layers) - 1, "opaque", run=ByCause(again))
        return problem.reading(name, again)

    return change


def _data(problem: Problem) -> Iterator[Candidate]:
    """Data of a product rounded to 8 bits on the way, though steps are declared for its weights only."""
    read = {n for layer in problem.layers if layer.kind == "dequantize_linear" for n in layer.outputs}
    for i, layer in enumerate(problem.layers):
        if layer.kind not in ("matmul", "gemm", "linear"):
            continue
        if layer.inputs[1] not in read and (problem.kept is None or problem.constant(i, 1) is None):
            continue
        for block in (_BLOCK, 0):
            rounded = ByCause(lambda x, size=block: (_eight_bits(x, size),))
            yield Candidate(
                kind="quantisation",
                fact=fact("steps.data", network="float", twin="int8", block=block or None),
                change=lambda p, i=i, run=rounded: p.first(i, 0, "opaque", run=run),
                cost=1.5,
                whole=True,
                close=True,
            )


def _eight_bits(x: torch.Tensor, block: int) -> torch.Tensor:
    size = block or x.shape[-1]
    if x.shape[-1] % size:
        raise NotApplicable("no whole number of blocks")
    parts = x.reshape(*x.shape[:-1], -1, size)
    scale = (parts.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-300)
    return ((parts / scale).round() * scale).reshape(x.shape)


def _softmax(problem: Problem) -> Iterator[Candidate]:
    """A softmax in whole numbers that counts with the whole part of 1 / step, as QLinearSoftmax does.

    The step 1/255 is a little more than that in float32, so that 254 is left of it. One number alone overflows to 0.
    """
    kept, last = problem.kept, len(problem.layers) - 1
    at = last
    while at > 0 and kinds.get(problem.layers[at].kind).exact:  # behind it numbers only move
        at -= 1
    if kept is None or kept.step is None or problem.layers[at].kind != "softmax":
        return
    if len(kept.step.scale or ()) != 1 or not kept.step.dtype.endswith("int8"):
        return
    step = float(torch.tensor((kept.step.scale or (1.0,))[0], dtype=torch.float32))
    alone = problem.out(at).shape[int(problem.layers[at].attrs.get("axis", -1))] == 1
    count = 0 if alone else math.floor(1 / step)
    ends = kept.step.range

    def counted(y: torch.Tensor) -> tuple[torch.Tensor]:
        return (((y * count + 0.5).floor() * step).clamp(*ends),)

    if count != 1 / step:
        found = fact("steps.softmax", network=1 / step, twin=count)
        yield _said(found, lambda p: p.then(last, "opaque", run=ByCause(counted)))
