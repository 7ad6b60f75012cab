"""The same channels in another order: BGR for RGB, two channels exchanged, any permutation."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.problem import Problem
from twinnet.result import fact


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind not in ("conv", "conv_transpose", "batch_norm", "mul", "sub", "add", "transpose"):
            continue
        name, x = layer.inputs[0], problem.operand(i, 0)
        if name is None or name in problem.constants or x.dim() < 3:
            continue
        for axis in (1, x.dim() - 1):
            if x.shape[axis] in (3, 4) or (axis == 1 and 1 < x.shape[axis] <= 64 and layer.kind == "conv"):

                def change(p: Problem, i=i, axis=axis):
                    return p.first(i, 0, "flip", axes=(axis,))

                count = x.shape[axis]
                yield Candidate(
                    kind="channel order",
                    fact=fact("channels.read_reversed", network="as they are", twin="reversed", count=count),
                    change=change,
                    whole=True,
                )
    yield from _permuted(problem)


def _permuted(problem: Problem) -> Iterator[Candidate]:
    """Each channel of the twin that is wrong, found among the network's channels."""
    y, t = problem.expected, problem.wanted
    if not problem.same_shape or not problem.is_float or y.dim() < 2:
        return
    for axis in dict.fromkeys((1, y.dim() - 1)):
        count = y.shape[axis]
        if not 2 <= count <= 4096:
            continue
        a, b = y.movedim(axis, 0).reshape(count, -1), t.movedim(axis, 0).reshape(count, -1)
        f = problem.floor.movedim(axis, 0).reshape(count, -1)
        wrong = ((b - a).abs() > 4 * f).any(1).nonzero().reshape(-1)
        if not 2 <= len(wrong) <= 256:
            continue
        # A few elements decide which channel a channel could be; the re-evaluation checks all.
        probe = torch.argsort((b - a).abs().amax(0), descending=True)[:64]
        off = (b[wrong][:, None, probe] - a[wrong][None][:, :, probe]).abs().amax(-1)
        match = wrong[off.argmin(1)]
        if sorted(match.tolist()) != wrong.tolist():
            continue
        order = torch.arange(count)
        order[wrong] = match
        twin = order.tolist() if count <= 64 else None
        if len(wrong) == 2:
            found = fact("channels.exchanged", network=None, twin=twin, channels=wrong)
        elif torch.equal(order, torch.arange(count).flip(0)):
            found = fact("channels.reversed", network=None, twin=twin)
        else:
            found = fact("channels.moved", network=None, twin=twin, moved=len(wrong), count=count)
        last = len(problem.layers) - 1

        def change(p: Problem, order=order, axis=axis, last=last):
            return p.then(last, "gather", {f"{p.target}/order": order}, axis=axis)

        yield Candidate(
            kind="channel order",
            fact=found,
            change=change,
            cost=1.5 if y.numel() > count else 2.0,
            whole=True,
        )
