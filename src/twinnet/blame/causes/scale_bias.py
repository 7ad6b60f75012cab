"""A factor or an offset: on the whole tensor, on some channels, or on one; and a bias left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.fitting import Affine, fit_channels, nice
from twinnet.blame.problem import Patch, Problem
from twinnet.blame.pullback import pull_back
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import along
from twinnet.result import Fact, fact

WEIGHTED = {"conv", "conv_transpose", "gemm", "linear", "matmul"}
"""Kinds that multiply by the weights at place 1."""
NORMS = {"batch_norm", "layer_norm", "instance_norm", "group_norm", "rms_norm"}
_LAST = {"matmul", "gemm", "linear", "layer_norm", "rms_norm"}
_MADE_HERE = {*WEIGHTED, *NORMS}
_BIASED = _MADE_HERE - {"matmul", "rms_norm"}  # at place 2
_ELSEWHERE = {"add": "bias", "sub": "bias", "mul": "scale", "div": "scale"}


def channel_axis(problem: Problem, i: int) -> int:
    """The channel axis of a layer's output, by its weights or by convention."""
    y = problem.out(i)
    return y.dim() - 1 if problem.layers[i].kind in _LAST or y.dim() < 3 else 1


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    last = len(problem.layers) - 1
    for i, layer in enumerate(problem.layers):
        y = problem.out(i)
        if not isinstance(y, torch.Tensor) or not y.is_floating_point() or y.dim() == 0:
            continue
        if i != last and layer.kind not in _MADE_HERE:
            continue
        back = pull_back(problem, i)
        if back is None or back[0].shape != y.shape:
            continue
        yield from _layer(problem, i, *back)


def _layer(problem: Problem, i: int, t: torch.Tensor, mask: torch.Tensor) -> Iterator[Candidate]:
    layer, y = problem.layers[i], problem.out(i)
    skip = _ELSEWHERE.get(layer.kind, "") if any(problem.constant(i, p) is not None for p in (0, 1)) else ""
    axis = channel_axis(problem, i)
    floor = (
        problem.floor if problem.floor.shape == y.shape else torch.full_like(y, float(problem.floor.max()))
    )
    bias = _bias(problem, i, axis)
    # Weights act before the bias: a factor on them leaves the bias as it is.
    core, aim = (y - bias, t - bias) if bias is not None else (y, t)
    fit = fit_channels(y, t, mask, axis, floor)
    if skip != "bias":
        yield from _offsets(i, axis, fit, bias)
    if skip != "scale":
        inner = fit if bias is None else fit_channels(core, aim, mask, axis, floor)
        noun = "weights" if layer.kind in WEIGHTED else "values"
        yield from _factors(inner, noun, lambda v: _mul(i, axis, v, bias))
        if bias is not None:
            yield from _factors(fit, "values", lambda v: _mul(i, axis, v, None), extra=0.5)


def _bias(problem: Problem, i: int, axis: int) -> torch.Tensor | None:
    layer = problem.layers[i]
    value = problem.constant(i, 2) if layer.kind in _BIASED else None
    if value is None or value.dim() > 1 or value.numel() not in (1, problem.out(i).shape[axis]):
        return None
    if layer.kind == "gemm":
        value = value * layer.attrs.get("beta", 1.0)
    return along(value, axis, problem.out(i).dim())


def _vector(problem: Problem, i: int, axis: int, values: torch.Tensor) -> torch.Tensor:
    return values if values.dim() == 0 else along(values, axis, problem.out(i).dim())


def _add(i: int, axis: int, values: Any):
    def change(p: Problem) -> Patch:
        return p.then(i, "add", {f"{p.layers[i].outputs[0]}/offset": _vector(p, i, axis, values)})

    return change


def _mul(i: int, axis: int, values: torch.Tensor, around: torch.Tensor | None):
    """A factor on the result; around the bias if there is one, as a factor on the weights would act."""

    def change(p: Problem) -> Patch:
        name = p.layers[i].outputs[0]
        value = _vector(p, i, axis, values)
        once = p.then(i, "mul", {f"{name}/factor": value})
        if around is None:
            return once
        made, scaled = once.layers
        inner = replace(scaled, outputs=(f"{name}/scaled",))
        final = Layer("add", (f"{name}/scaled", f"{name}/rest"), (name,))
        return Patch(i, i + 1, (made, inner, final), {**once.constants, f"{name}/rest": around * (1 - value)})

    return change


def _offsets(i: int, axis: int, fit: Affine, bias: torch.Tensor | None) -> Iterator[Candidate]:
    count = len(fit.affected)
    if bias is not None:
        flat = bias.reshape(-1).expand(count)
        yield Candidate(
            kind="bias",
            fact=fact("operator.left_out", network="bias", twin="nothing"),
            change=_add(i, axis, -flat),
            whole=True,
        )
        ratio = float(((flat + fit.offset) * flat).sum() / (flat * flat).sum()) if bool(flat.any()) else None
        if ratio is not None and nice(ratio) not in (None, 1.0, 0.0) and count > 1:
            r = float(nice(ratio) or 0.0)
            yield Candidate(
                kind="bias",
                fact=fact("scaled.all", of="bias", network=1.0, twin=r),
                change=_add(i, axis, flat * (r - 1)),
                cost=1.75,
                whole=True,
            )
    one = fit.affected.nonzero().reshape(-1)
    if len(one) == 1 and count > 1:
        c = int(one[0])
        d = float(fit.offset[c])
        before = None if bias is None else float(bias.reshape(-1).expand(count)[c])
        ratio = nice(1 + d / before) if before else None
        if ratio is not None and before is not None:
            only = torch.zeros(count, dtype=torch.float64)
            only[c] = before * (ratio - 1)
            yield Candidate(
                kind="bias",
                fact=fact("scaled.bias", channel=c, factor=ratio, network=before, twin=before * ratio),
                change=_add(i, axis, only),
                cost=2.0,
                whole=True,
            )
        only = torch.zeros(count, dtype=torch.float64)
        only[c] = d
        ours, theirs = before or 0.0, (before or 0.0) + d
        yield Candidate(
            kind="bias",
            fact=fact("vector.one", of="bias", channel=c, network=ours, twin=theirs, factor=None),
            change=_add(i, axis, only),
            cost=3.0,
            whole=True,
            fitted=1,
        )
    d = fit.offset_all
    if count > 1 and 2 * len(one) > count:
        cost = 2.0 if nice(d) is not None and d else 3.0
        yield Candidate(
            kind="bias",
            fact=fact("bias.added", network=0.0, twin=d),
            change=_add(i, axis, torch.tensor(d, dtype=torch.float64)),
            cost=cost,
            whole=True,
            fitted=int(cost > 2),
        )
    if len(one) > 1:
        some = torch.where(fit.affected, fit.offset, 0.0)
        yield Candidate(
            kind="bias",
            fact=fact("vector.some", of="bias", channels=len(one), count=count),
            change=_add(i, axis, some),
            cost=6.0,
            whole=True,
            fitted=len(one),
        )


def _factors(
    fit: Affine, noun: str, by: Callable[[torch.Tensor], Callable[[Problem], Patch]], extra: float = 0.0
) -> Iterator[Candidate]:
    """Factors on `noun`; `by` makes the patch that multiplies by one number, or by one number per channel."""

    def scaled(found: Fact, value: torch.Tensor, cost: float, fitted: int) -> Candidate:
        return Candidate(
            kind="scale", fact=found, change=by(value), cost=cost + extra, whole=True, fitted=fitted
        )

    count = len(fit.affected)
    one = fit.affected.nonzero().reshape(-1)
    if len(one) == 1 and count > 1:
        c = int(one[0])
        for a, cost in _numbers(float(fit.factor[c])):
            only = torch.ones(count, dtype=torch.float64)
            only[c] = a
            yield scaled(
                fact("scaled.channel", of=noun, channel=c, network=1.0, twin=a), only, cost, int(cost > 2)
            )
    if 2 * len(one) > count or count == 1:
        for a, cost in _numbers(fit.factor_all):
            value = torch.tensor(a, dtype=torch.float64)
            yield scaled(fact("scaled.all", of=noun, network=1.0, twin=a), value, cost, int(cost > 2))
    if len(one) > 1:
        some = torch.where(fit.affected, fit.factor, 1.0)
        yield scaled(fact("scaled.some", of=noun, channels=len(one), count=count), some, 6.0, len(one))


def _numbers(value: float) -> Iterator[tuple[float, float]]:
    if nice(value) not in (None, 1.0):
        yield float(nice(value) or 0.0), 2.0
    yield value, 3.0
