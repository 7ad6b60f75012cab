"""Mistakes before the first layer: range, normalisation, colours and layout of the input itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.problem import Patch, Problem
from twinnet.judge.preparations import preparations
from twinnet.layers.graph import Layer

_WAYS = {
    "scaled from [0,1] to [-1,1]": (2.0, -1.0),
    "scaled from [-1,1] to [0,1]": (0.5, 0.5),
    "divided by 255": (1 / 255, 0.0),
    "multiplied by 255": (255.0, 0.0),
    "divided by 127.5, minus 1": (1 / 127.5, -1.0),
    "shifted by 128": (1.0, -128.0),
}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        for place, name in enumerate(layer.inputs):
            if name is None or name not in problem.graph_inputs:
                continue
            x = problem.operand(i, place)
            if not isinstance(x, torch.Tensor) or not x.is_floating_point():
                continue
            for words, (a, b) in _WAYS.items():
                sentence = f"the input is {words}, which the network does not do"
                yield in_words(
                    "preprocessing",
                    sentence,
                    lambda p, i=i, k=place, a=a, b=b: _affine(p, i, k, a, b),
                    "as it is",
                    f"{plain(a)} x + {plain(b)}",
                    cost=1.25,
                )
            for words, made in preparations(x.numpy()):
                yield in_words(
                    "preprocessing",
                    f"takes the input {words}",
                    lambda p, i=i, k=place, v=made: p.give(i, k, torch.from_numpy(v)),
                    "as it is",
                    words,
                    cost=1.25,
                    whole=True,
                    close="8 bits" in words,
                    what="prepared",
                )


def _affine(problem: Problem, i: int, place: int, a: float, b: float) -> Patch:
    layer = problem.layers[i]
    name = layer.inputs[place]
    one, two = f"{name}/factor", f"{name}/offset"
    extra = (
        Layer("mul", (name, one), (f"{name}/scaled",)),
        Layer("add", (f"{name}/scaled", two), (f"{name}/prepared",)),
    )
    inputs = tuple(f"{name}/prepared" if k == place else n for k, n in enumerate(layer.inputs))
    made = Layer(layer.kind, inputs, layer.outputs, layer.attrs)
    value = {one: torch.tensor(a, dtype=torch.float64), two: torch.tensor(b, dtype=torch.float64)}
    return Patch(i, i + 1, (*extra, made), value)
