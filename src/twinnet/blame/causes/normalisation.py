"""Normalisations: epsilon, folded statistics, kind, axis and grouping."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.fitting import fit_number, nice
from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer

_NORMS = {"batch_norm", "layer_norm", "instance_norm", "group_norm", "rms_norm"}
_EPS = (0.0, 1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-2, 0.1)


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind not in _NORMS:
            continue
        yield from _epsilon(problem, i, layer)
        yield in_words(
            "normalisation",
            f"leaves out the {_name(layer)}",
            lambda p, i=i: p.drop(i),
            _name(layer),
            "nothing",
        )
        if layer.kind == "batch_norm":
            yield from _batch(problem, i, layer)
        else:
            yield from _others(problem, i, layer)


def _name(layer: Layer) -> str:
    return layer.kind.replace("_", " ")


def _epsilon(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    ours = float(layer.attrs.get("eps", 1e-5))

    def candidate(value: float, cost: float) -> Candidate:
        words = f"eps {plain(value)} where the network has {plain(ours)}"
        return in_words("eps", words, lambda p: p.change(i, eps=value), ours, value, cost)

    for value in _EPS:
        if abs(value - ours) > 1e-3 * ours:
            yield candidate(value, 1.0)
    if problem.same_shape and problem.is_float:
        found = fit_number(lambda v: problem.run(problem.change(i, eps=max(v, 0.0))), ours, problem.wanted)
        if found is not None and found >= 0 and abs(found - ours) > 1e-3 * ours:
            yield candidate(found, 1.75 if nice(found / ours, 1e-3) or nice(found, 1e-3) else 2.5)


def _batch(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    scale, bias, mean, var = layer.inputs[1:5]
    x = problem.operand(i, 0)
    channels = x.shape[1] if x.dim() > 1 else 1
    zero, one = torch.zeros(channels, dtype=torch.float64), torch.ones(channels, dtype=torch.float64)

    def operands(*names: str | None):
        return lambda p: p.change(i, inputs=(p.layers[i].inputs[0], *names))

    def given(place: int, value: torch.Tensor):
        return lambda p: p.give(i, place, value)

    lead = (scale, bias)
    yield in_words("statistics", "mean and variance exchanged", operands(*lead, var, mean))
    yield in_words("statistics", "scale and bias exchanged", operands(bias, scale, mean, var))
    yield in_words("statistics", "takes the mean as 0", given(3, zero), "running mean", 0.0, whole=True)
    yield in_words(
        "statistics", "takes the variance as 1", given(4, one), "running variance", 1.0, whole=True
    )
    v = problem.constant(i, 4)
    if v is not None:
        words = "divides by the variance where the network divides by the standard deviation"
        yield in_words("statistics", words, given(4, v * v), "sqrt(var)", "var", whole=True)
        yield in_words(
            "statistics",
            "takes the standard deviation for the variance",
            given(4, v.clamp_min(0).sqrt()),
            "var",
            "sqrt(var)",
            whole=True,
        )
    if bias is not None:
        yield in_words("bias", "leaves out the bias", given(2, zero), "bias", "nothing", whole=True)
    if scale is not None:
        yield in_words("scale", "leaves out the scale", given(1, one), "scale", "nothing", whole=True)
    if x.dim() > 2 or x.shape[0] > 1:
        axes = [a for a in range(x.dim()) if a != 1]
        words = (
            "normalises with the statistics of the batch (training mode) where the network has running ones"
        )
        for unbiased in (False, True):
            m, s = x.mean(axes), x.var(axes, correction=int(unbiased))

            def training(p: Problem, m=m, s=s):
                a, b = f"{layer.outputs[0]}/mean", f"{layer.outputs[0]}/var"
                patch = p.change(i, inputs=(p.layers[i].inputs[0], scale, bias, a, b))
                return type(patch)(patch.start, patch.stop, patch.layers, {a: m, b: s})

            yield in_words("statistics", words, training, "running", "batch", whole=True)


def _others(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x = problem.operand(i, 0)
    names = tuple(layer.inputs)
    for place, kind, words in ((1, "scale", "scale"), (2, "bias", "bias")):
        if place < len(names) and names[place] is not None:

            def without(p: Problem, k=place):
                return p.change(
                    i, inputs=tuple(None if q == k else n for q, n in enumerate(p.layers[i].inputs))
                )

            yield in_words(kind, f"leaves out the {words}", without, words, "nothing")
    if layer.kind == "layer_norm":
        ours = int(layer.attrs.get("axis", -1)) % x.dim()
        yield in_words(
            "normalisation",
            "RMS norm (no mean) instead of layer norm",
            lambda p: p.change(i, kind="rms_norm", inputs=names[:2]),
            "layer norm",
            "RMS norm",
        )
        for axis in range(1, x.dim()):
            if axis != ours:
                words = f"normalises from axis {axis} where the network normalises from axis {ours}"
                yield in_words("normalisation", words, lambda p, a=axis: p.change(i, axis=a), ours, axis)
        yield from _unbiased(problem, i, layer, ours)
    if layer.kind == "rms_norm":
        yield in_words(
            "normalisation",
            "layer norm instead of RMS norm",
            lambda p: p.change(i, kind="layer_norm"),
            "RMS norm",
            "layer norm",
        )
    if layer.kind == "group_norm":
        ours = int(layer.attrs["groups"])
        for groups in range(1, x.shape[1] + 1):
            if x.shape[1] % groups == 0 and groups != ours:
                words = f"{groups} groups where the network has {ours}"
                yield in_words(
                    "normalisation", words, lambda p, g=groups: p.change(i, groups=g), ours, groups
                )
    if layer.kind == "instance_norm" and x.dim() > 2:
        yield in_words(
            "normalisation",
            "normalises all channels together where the network normalises each",
            lambda p: p.become(i, "group_norm", names, groups=1, eps=layer.attrs.get("eps", 1e-5)),
            "each",
            "together",
        )


def _unbiased(problem: Problem, i: int, layer: Layer, axis: int) -> Iterator[Candidate]:
    """n - 1 in place of n is a slightly larger variance: the same as a factor before scale and bias."""
    x = problem.operand(i, 0)
    n = 1
    for size in x.shape[axis:]:
        n *= size
    if n < 2:
        return
    scale, bias = problem.operand(i, 1), problem.operand(i, 2)
    axes = tuple(range(axis, x.dim()))
    eps = float(layer.attrs.get("eps", 1e-5))
    made = (x - x.mean(axes, keepdim=True)) / (x.var(axes, correction=1, keepdim=True) + eps).sqrt()
    made = made * (1.0 if scale is None else scale) + (0.0 if bias is None else bias)

    def change(p: Problem):
        name = f"{layer.outputs[0]}/unbiased"
        patch = p.become(i, "identity", (name,))
        return type(patch)(patch.start, patch.stop, patch.layers, {name: made})

    yield in_words(
        "normalisation", "divides by n - 1 where the network divides by n", change, "n", "n - 1", whole=True
    )
