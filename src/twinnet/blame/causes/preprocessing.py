"""Mistakes before the first layer: range, normalisation, colours and layout of the input itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.problem import Patch, Problem
from twinnet.judge.preparations import preparations
from twinnet.layers.graph import Layer
from twinnet.result import fact

_WAYS = ((2.0, -1.0), (0.5, 0.5), (1 / 255, 0.0), (255.0, 0.0), (1 / 127.5, -1.0), (1.0, -128.0))
"""Usual factors and offsets: from [0,1] to [-1,1] and back, by 255, by 127.5 and minus 1, minus 128."""


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        for place, name in enumerate(layer.inputs):
            if name is None or name not in problem.graph_inputs:
                continue
            x = problem.operand(i, place)
            if not isinstance(x, torch.Tensor) or not x.is_floating_point():
                continue
            for a, b in _WAYS:
                twin = f"{a:.6g} x + {b:.6g}"
                yield Candidate(
                    kind="preprocessing",
                    fact=fact("input.scaled", network="as it is", twin=twin, factor=a, offset=b),
                    change=lambda p, i=i, k=place, a=a, b=b: _affine(p, i, k, a, b),
                    cost=1.25,
                )
            for way, made in preparations(x.numpy()):
                yield Candidate(
                    kind="preprocessing",
                    fact=fact("input.taken", input=None, way=way, network="as it is", twin=way),
                    change=lambda p, i=i, k=place, v=made: p.give(i, k, torch.as_tensor(v)),
                    cost=1.25,
                    whole=True,
                    close=way.code == "prepared.eight_bits",
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
