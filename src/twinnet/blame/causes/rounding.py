"""Rounding to whole numbers: half to even, half away, down, up, towards zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.causes.quantisation import WAYS
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.result import fact

_OURS = {"round": "half to even", "floor": "down", "ceil": "up", "trunc": "towards zero"}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        to = layer.attrs.get("to")
        x = problem.operand(i, 0) if layer.inputs else None
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            continue
        whole = (
            layer.kind == "cast"
            and isinstance(to, torch.dtype)
            and not to.is_floating_point
            and to != torch.bool
        )
        if layer.kind not in _OURS and not whole:
            continue
        ours = "towards zero" if whole else _OURS[layer.kind]
        for words, way in WAYS.items():
            if words != ours:
                yield Candidate(
                    kind="rounding",
                    fact=fact("rounding.another", network=ours, twin=words),
                    change=lambda p, i=i, f=way: _rounded(p, i, f),
                )
        if not whole:
            yield Candidate(
                kind="rounding",
                fact=fact("rounding.left_out", network=ours, twin="nothing"),
                change=lambda p, i=i: p.drop(i),
            )


def _rounded(problem: Problem, i: int, way: Callable[[torch.Tensor], torch.Tensor]) -> Patch:
    to = problem.layers[i].attrs.get("to")

    def run(x: torch.Tensor) -> tuple[torch.Tensor]:
        made = way(x)
        return (made.to(to) if isinstance(to, torch.dtype) else made,)

    return problem.become(i, "opaque", run=ByCause(run))
