"""Attention: scale and masks."""

from __future__ import annotations

from collections.abc import Iterator

from twinnet.blame.causes.family import Candidate, family, plain
from twinnet.blame.problem import Problem


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind != "attention":
            continue
        causal = bool(layer.attrs.get("is_causal", False))
        words = (
            "looks at later positions, which the network masks"
            if causal
            else "masks later positions, which the network sees"
        )
        yield Candidate(
            "attention", words, lambda p, i=i, c=causal: p.change(i, is_causal=not c), causal, not causal
        )
        if len(layer.inputs) > 3 and layer.inputs[3] is not None:
            names = layer.inputs[:3]
            yield Candidate(
                "attention",
                "ignores the mask",
                lambda p, i=i, n=names: p.change(i, inputs=n),
                "mask",
                "nothing",
            )
        width = problem.operand(i, 0).shape[-1]
        ours = layer.attrs.get("scale")
        ours = width**-0.5 if ours is None else float(ours)
        for value in (1.0, width**-0.5, 1.0 / width, width**-0.25, width**0.5):
            if abs(value - ours) > 1e-6:
                words = f"scales the scores by {plain(value)} where the network scales by {plain(ours)}"
                yield Candidate("attention", words, lambda p, i=i, v=value: p.change(i, scale=v), ours, value)
