"""Attention: scale, masks and the number of heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind in ("mul", "div"):
            yield from _written_out(problem, i)
        if layer.kind != "attention":
            continue
        causal = bool(layer.attrs.get("is_causal", False))
        found = fact("attention.causal", network=causal, twin=not causal)
        yield changed("attention", found, i, is_causal=not causal)
        if len(layer.inputs) > 3 and layer.inputs[3] is not None:
            found = fact("attention.no_mask", network="mask", twin="nothing")
            yield changed("attention", found, i, inputs=layer.inputs[:3])
        width = problem.tensor(i, 0).shape[-1]
        ours = layer.attrs.get("scale")
        ours = width**-0.5 if ours is None else float(ours)
        for value in _scales(width, ours):
            yield changed("attention", fact("attention.scale", network=ours, twin=value), i, scale=value)
        yield from _other_heads(problem, i, ours)


def _other_heads(problem: Problem, i: int, scale: float) -> Iterator[Candidate]:
    """The same channels in more or fewer heads; the usual scale goes with their width."""
    layer = problem.layers[i]
    shapes = [problem.tensor(i, place).shape for place in range(3)]
    heads, width = shapes[0][-3], shapes[0][-1]
    if any(layer.inputs[3:]) or any(len(s) != 4 or (s[1], s[3]) != (heads, width) for s in shapes):
        return
    usual = abs(scale * width**0.5 - 1) < 1e-6
    for count in range(1, heads * width + 1):
        if heads * width % count or count == heads:
            continue
        factor = (heads * width // count) ** -0.5 if usual else scale
        yield Candidate(
            kind="attention",
            fact=fact("attention.heads", network=heads, twin=count),
            change=lambda p, count=count, factor=factor: _regrouped(p, i, count, factor),
            whole=True,
        )


def _regrouped(problem: Problem, i: int, count: int, scale: float) -> Patch:
    layer = problem.layers[i]
    names = [f"{name}/{place}" for place, name in enumerate(layer.inputs[:3])]
    inner = f"{layer.outputs[0]}/heads"

    def group(name: str | None, new: str, to: int) -> Layer:
        def run(x: torch.Tensor) -> tuple[torch.Tensor]:
            batch, _, length, _ = x.shape
            return (x.transpose(1, 2).reshape(batch, length, to, -1).transpose(1, 2),)

        return Layer("opaque", (name,), (new,), {"run": ByCause(run)})

    heads = problem.tensor(i, 0).shape[1]
    made = replace(layer, inputs=tuple(names), outputs=(inner,), attrs={**layer.attrs, "scale": scale})
    before = [group(name, new, count) for name, new in zip(layer.inputs, names)]
    return Patch(i, i + 1, (*before, made, group(inner, layer.outputs[0], heads)))


def _scales(width: int, ours: float) -> list[float]:
    """Usual factors for heads of this width, and for the width of several heads together."""
    usual = [1.0, width**-0.5, 1.0 / width, width**-0.25, width**0.5]
    usual += [(heads * width) ** -0.5 for heads in (2, 3, 4, 6, 8, 12, 16, 32)]
    return [value for value in dict.fromkeys(usual) if abs(value - ours) > 1e-6 * ours]


def _written_out(problem: Problem, i: int) -> Iterator[Candidate]:
    """Attention written out: a separate layer scales the scores between the product and the softmax."""
    layer = problem.layers[i]
    number = next((c for k in (0, 1) if (c := problem.constant(i, k)) is not None and c.numel() == 1), None)
    product = next((j for j in range(i - 1, -1, -1) if problem.layers[j].kind == "matmul"), None)
    later = {x.kind for x in problem.layers[i:]}
    if (
        number is None
        or product is None
        or "softmax" not in later
        or problem.constant(product, 1) is not None
    ):
        return
    place = 0 if problem.constant(i, 0) is not None else 1
    ours = float(number) if layer.kind == "mul" else 1.0 / float(number)
    for value in _scales(problem.tensor(product, 0).shape[-1], ours):
        given = number.new_full(number.shape, value if layer.kind == "mul" else 1.0 / value)
        yield Candidate(
            kind="attention",
            fact=fact("attention.scale", network=ours, twin=value),
            change=lambda p, v=given: p.give(i, place, v),
        )
