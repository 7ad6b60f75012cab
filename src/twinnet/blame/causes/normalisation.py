"""Normalisations: epsilon, folded statistics, kind, axis and grouping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.fitting import fit_number, nice
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_NORMS = {"batch_norm", "layer_norm", "instance_norm", "group_norm", "rms_norm"}
_EPS = (0.0, 1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-2, 0.1)


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind not in _NORMS:
            continue
        yield from _epsilon(problem, i, layer)
        yield Candidate(
            kind="normalisation",
            fact=fact("operator.left_out", network=layer.kind.replace("_", " "), twin="nothing"),
            change=lambda p, i=i: p.drop(i),
        )
        if layer.kind == "batch_norm":
            yield from _batch(problem, i, layer)
        else:
            yield from _others(problem, i, layer)


def _epsilon(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    ours = float(layer.attrs.get("eps", 1e-5))

    def candidate(value: float, cost: float) -> Candidate:
        return Candidate(
            kind="eps",
            fact=fact("attribute.another", name="eps", network=ours, twin=value),
            change=lambda p: p.change(i, eps=value),
            cost=cost,
        )

    for value in _EPS:
        if abs(value - ours) > 1e-3 * ours:
            yield candidate(value, 1.0)
    if problem.same_shape and problem.is_float:
        found = fit_number(lambda v: problem.run(problem.change(i, eps=max(v, 0.0))), ours, problem.wanted)
        if found is not None and found >= 0 and abs(found - ours) > 1e-3 * ours:
            yield candidate(found, 1.75 if nice(found / ours, 1e-3) or nice(found, 1e-3) else 2.5)


def _batch(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    scale, bias, mean, var = layer.inputs[1:5]
    x = problem.tensor(i, 0)
    channels = x.shape[1] if x.dim() > 1 else 1
    zero, one = torch.zeros(channels, dtype=torch.float64), torch.ones(channels, dtype=torch.float64)

    def operands(*names: str | None):
        return lambda p: p.change(i, inputs=(p.layers[i].inputs[0], *names))

    def given(place: int, value: torch.Tensor):
        return lambda p: p.give(i, place, value)

    lead = (scale, bias)
    for pair, change in (
        (("mean", "variance"), operands(*lead, var, mean)),
        (("scale", "bias"), operands(bias, scale, mean, var)),
    ):
        yield Candidate(kind="statistics", fact=fact("statistics.exchanged", operands=pair), change=change)

    def taken(place: int, value: torch.Tensor, network: str, twin: Any) -> Candidate:
        found = fact("statistics.taken", network=network, twin=twin)
        return Candidate(kind="statistics", fact=found, change=given(place, value), whole=True)

    yield taken(3, zero, "running mean", 0.0)
    yield taken(4, one, "running variance", 1.0)
    v = problem.constant(i, 4)
    if v is not None:
        yield taken(4, v * v, "sqrt(var)", "var")
        yield taken(4, v.clamp_min(0).sqrt(), "var", "sqrt(var)")
    for kind, place, name, value in (("bias", 2, bias, zero), ("scale", 1, scale, one)):
        if name is not None:
            found = fact("operator.left_out", network=kind, twin="nothing")
            yield Candidate(kind=kind, fact=found, change=given(place, value), whole=True)
    if x.dim() > 2 or x.shape[0] > 1:
        axes = [a for a in range(x.dim()) if a != 1]
        for unbiased in (False, True):
            m, s = x.mean(axes), x.var(axes, correction=int(unbiased))

            def training(p: Problem, m=m, s=s):
                a, b = f"{layer.outputs[0]}/mean", f"{layer.outputs[0]}/var"
                patch = p.change(i, inputs=(p.layers[i].inputs[0], scale, bias, a, b))
                return Patch(patch.start, patch.stop, patch.layers, {a: m, b: s})

            yield Candidate(
                kind="statistics",
                fact=fact("statistics.of_the_batch", network="running", twin="batch"),
                change=training,
                whole=True,
            )


def _others(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x = problem.tensor(i, 0)
    names = tuple(layer.inputs)

    for place, kind in ((1, "scale"), (2, "bias")):
        if place < len(names) and names[place] is not None:
            found = fact("operator.left_out", network=kind, twin="nothing")
            yield Candidate(kind=kind, fact=found, change=lambda p, k=place: _without(p, i, k))
    if layer.kind == "layer_norm":
        ours = int(layer.attrs.get("axis", -1)) % x.dim()
        found = fact("normalisation.another", network="layer norm", twin="RMS norm")
        yield changed("normalisation", found, i, kind="rms_norm", inputs=names[:2])
        for axis in range(1, x.dim()):
            if axis != ours:
                found = fact("normalisation.axis", network=ours, twin=axis)
                yield changed("normalisation", found, i, axis=axis)
        yield from _unbiased(problem, i, layer, ours)
    if layer.kind == "rms_norm":
        found = fact("normalisation.another", network="RMS norm", twin="layer norm")
        yield changed("normalisation", found, i, kind="layer_norm")
    if layer.kind == "group_norm":
        ours = int(layer.attrs["groups"])
        for groups in range(1, x.shape[1] + 1):
            if x.shape[1] % groups == 0 and groups != ours:
                found = fact("normalisation.groups", network=ours, twin=groups)
                yield changed("normalisation", found, i, groups=groups)
    if layer.kind == "instance_norm" and x.dim() > 2:
        yield Candidate(
            kind="normalisation",
            fact=fact("normalisation.together", network="each", twin="together"),
            change=lambda p: p.become(i, "group_norm", names, groups=1, eps=layer.attrs.get("eps", 1e-5)),
        )


def _without(problem: Problem, i: int, place: int) -> Patch:
    """A layer without the operand at `place`; the others under the names they have in this problem."""
    return problem.change(
        i, inputs=[None if k == place else n for k, n in enumerate(problem.layers[i].inputs)]
    )


def _unbiased(problem: Problem, i: int, layer: Layer, axis: int) -> Iterator[Candidate]:
    """n - 1 in place of n is a slightly larger variance: the same as a factor before scale and bias."""
    x = problem.tensor(i, 0)
    if x.shape[axis:].numel() < 2:
        return
    scale, bias = problem.operand(i, 1), problem.operand(i, 2)
    axes = tuple(range(axis, x.dim()))
    eps = float(layer.attrs.get("eps", 1e-5))
    made = (x - x.mean(axes, keepdim=True)) / (x.var(axes, correction=1, keepdim=True) + eps).sqrt()
    made = made * (1.0 if scale is None else scale) + (0.0 if bias is None else bias)

    yield Candidate(
        kind="normalisation",
        fact=fact("normalisation.unbiased", network="n", twin="n - 1"),
        change=lambda p: p.made(i, made),
        whole=True,
    )
