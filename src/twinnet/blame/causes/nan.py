"""NaN and infinity: replaced by numbers, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.result import fact

_LARGEST = 3.4028234663852886e38


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if not problem.is_float or not problem.same_shape:
        return
    y, t, last = problem.expected, problem.wanted, len(problem.layers) - 1
    if bool(y.isfinite().all()) and bool(t.isfinite().all()):
        return
    for value in (0.0, _LARGEST):
        yield Candidate(
            kind="nan",
            fact=fact("nan.replaced", network="NaN", twin=value),
            change=lambda p, v=value: _fill(p, last, torch.isnan, v),
        )
    yield Candidate(
        kind="nan",
        fact=fact("nan.bounded", network="inf", twin=_LARGEST),
        change=lambda p: p.then(last, "clip", min=-_LARGEST, max=_LARGEST),
    )
    lost = t.isnan() & y.isfinite()
    if not bool(lost.any()):
        return
    for i, layer in enumerate(problem.layers):
        for place, name in enumerate(layer.inputs):
            x = problem.operand(i, place) if name is not None else None
            if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.shape != y.shape:
                continue
            for value, test in (
                ("infinite", torch.isinf),
                ("not a number", torch.isnan),
                ("zero", lambda v: v == 0),
                ("negative", lambda v: v < 0),
            ):
                if torch.equal(test(x) & y.isfinite(), lost):
                    yield Candidate(
                        kind="nan",
                        fact=fact("nan.made", network="a number", twin="NaN", operand=place, value=value),
                        change=lambda p, n=str(name), f=test: _where(p, last, n, f),
                        whole=True,
                    )


def _fill(problem: Problem, i: int, test, value: float) -> Patch:
    return problem.then(i, "opaque", run=ByCause(lambda x: (torch.where(test(x), value, x),)))


def _where(problem: Problem, i: int, name: str, test) -> Patch:
    return problem.made(i, torch.where(test(problem.values[name]), float("nan"), problem.expected))
