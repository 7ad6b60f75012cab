"""What a quantised twin itself declares wrongly: weights beyond half a step, a range too small, steps that differ
between writing and reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.fitting import nice
from twinnet.blame.problem import Patch, Problem
from twinnet.pairing import Transform

if TYPE_CHECKING:
    from twinnet.judge.declared import KeptWeight

_SLACK = 1.02
_BLOCK = 32


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    kept = problem.kept
    if kept is None or not problem.same_shape:
        return
    wrong = [w for w in kept.weights if bool(((w.theirs - w.ours).abs() > _SLACK * w.half).any())]
    for weight in wrong:
        sentence, ours, theirs = _about(weight)
        yield in_words(
            "quantisation", sentence, _with(weight), ours, theirs, cost=1.0, whole=True, static=True
        )
    yield from _range(problem)
    for name, written, read in kept.read:
        sentence, ours, theirs = _other_steps(written, read)
        yield in_words(
            "quantisation", sentence, _read_as(name, written, read), ours, theirs, whole=True, static=True
        )
    yield from _data(problem)


# -- weights -----------------------------------------------------------------------------------------------------------


def _with(weight: KeptWeight) -> Callable[[Problem], Patch]:
    return lambda p: p.give(weight.layer, weight.place, weight.theirs)


def _about(w: KeptWeight) -> tuple[str, object, object]:
    """What is wrong with a weight, in words, and a number of each side."""
    what = "bias" if w.place == 2 else "weights"
    beyond = (w.theirs - w.ours).abs() > _SLACK * w.half
    channels = _channels(beyond)
    where = what if len(channels) > 1 or beyond.dim() < 2 else f"{what} of channel {channels[0]}"
    picked = beyond if len(channels) > 1 else _channel(beyond, channels[0])
    a, b, half = w.ours[picked], w.theirs[picked], w.half[picked]
    if bool((w.ends[beyond] & (w.theirs[beyond].abs() < w.ours[beyond].abs())).all()):
        top, reach = float(w.theirs[beyond].abs().max()), float(w.ours[beyond].abs().max())
        return f"saturates: {where} end at {plain(top)} where the network has {plain(reach)}", reach, top
    ratio = float((a * b).sum() / (a * a).sum()) if bool(a.any()) else 1.0
    if _fits(b, a * ratio, half * max(abs(ratio), 1.0)):
        ratio = nice(ratio, 5e-3) or ratio
        return f"has a scale of the {where} {plain(ratio)}x that of the network", 1.0, ratio
    shift = float(((b - a) / (2 * half)).median())
    if _fits(b, a + round(shift) * 2 * half, half) and round(shift):
        return f"has a zero point of the {where} that is off by {-round(shift)}", 0, -round(shift)
    count = int(beyond.sum())
    if count == 1:
        ours, theirs = float(w.ours[beyond]), float(w.theirs[beyond])
        return f"has one of the {where} at {plain(theirs)} where the network has {plain(ours)}", ours, theirs
    worst = float(((w.theirs - w.ours).abs() / w.half).max()) / 2
    return f"has {count} {where} further than half a step from the network's", 0.5, worst


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
    """A range that does not hold what the network itself has there."""
    kept = problem.kept
    if kept is None or kept.step is None or kept.own is None or not kept.own.size:
        return
    low, high = kept.step.range
    least, most = float(kept.own.min()), float(kept.own.max())
    if least >= low and most <= high:
        return
    here, there = f"[{low:.4g}, {high:.4g}]", f"[{least:.4g}, {most:.4g}]"
    last = len(problem.layers) - 1
    yield in_words(
        "quantisation",
        f"saturates at {here} where the network's values reach {there}: the range is too small",
        lambda p: p.then(last, "identity"),  # a result is always held within the range
        (least, most),
        (low, high),
        whole=True,
        static=True,
    )


def _other_steps(written: Transform, read: Transform) -> tuple[str, object, object]:
    if written.scale != read.scale and len(written.scale or ()) == len(read.scale or ()) == 1:
        ratio = (read.scale or (1.0,))[0] / (written.scale or (1.0,))[0]
        return f"reads its data with a scale {plain(ratio)}x the one they were written with", 1.0, ratio
    if written.zero != read.zero and len(written.zero) == len(read.zero) == 1:
        ours, theirs = written.zero[0], read.zero[0]
        return f"reads its data with zero point {theirs} where they were written with {ours}", ours, theirs
    return "reads its data in other steps than they were written in", None, None


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
        return ((x / s + z - offset) * other,)

    def change(problem: Problem) -> Patch:
        if name == problem.target:
            last, ends = len(problem.layers) - 1, written.range
            return problem.then(last, "opaque", run=lambda x: again(x.clamp(*ends)))
        return problem.reading(name, again)

    return change


def _data(problem: Problem) -> Iterator[Candidate]:
    """Data of a product rounded to 8 bits on the way, though the twin declares steps for its weights only."""
    for i, layer in enumerate(problem.layers):
        if layer.kind not in ("matmul", "gemm", "linear") or problem.constant(i, 1) is None:
            continue
        for words, size in (("in blocks of 32", _BLOCK), ("row by row", 0)):
            yield in_words(
                "quantisation",
                f"rounds the data to 8 bits {words}, where only weights are declared to be rounded",
                lambda p, i=i, size=size: p.first(i, 0, "opaque", run=lambda x: (_eight_bits(x, size),)),
                "float",
                "int8",
                1.5,
                whole=True,
                close=True,
            )


def _eight_bits(x: torch.Tensor, block: int) -> torch.Tensor:
    size = block or x.shape[-1]
    if x.shape[-1] % size:
        raise ValueError("no whole number of blocks")
    parts = x.reshape(*x.shape[:-1], -1, size)
    scale = (parts.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-300)
    return ((parts / scale).round() * scale).reshape(x.shape)
