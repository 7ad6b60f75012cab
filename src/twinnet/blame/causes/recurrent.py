"""Recurrent layers: gate order, direction, reset, activations, biases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_GATES = {"lstm": "iofc", "gru": "zrh", "rnn": "h"}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind not in _GATES:
            continue
        gates = _GATES[layer.kind]
        for order in itertools.permutations(range(len(gates))):
            if order == tuple(range(len(gates))):
                continue
            named = "".join(gates[k] for k in order)
            yield Candidate(
                kind="recurrent",
                fact=fact("recurrent.gates", network=gates, twin=named),
                change=lambda p, i=i, o=order: _gates(p, i, o),
            )
        if layer.kind == "gru":
            ours = bool(layer.attrs.get("linear_before_reset", False))
            yield Candidate(
                kind="recurrent",
                fact=fact("recurrent.reset", network=ours, twin=not ours),
                change=lambda p, i=i, o=ours: p.change(i, linear_before_reset=not o),
            )
        direction = layer.attrs.get("direction", "forward")
        if direction != "bidirectional":
            other = "reverse" if direction == "forward" else "forward"
            yield Candidate(
                kind="recurrent",
                fact=fact("recurrent.direction", network=direction, twin=other),
                change=lambda p, i=i, o=other: p.change(i, direction=o),
            )
        if len(layer.inputs) > 3 and layer.inputs[3] is not None:
            yield Candidate(
                kind="bias",
                fact=fact("operator.left_out", network="bias", twin="nothing"),
                change=lambda p, i=i: _without(p, i, 3),
            )
            for keep, name in enumerate(("input", "recurrent")):
                yield Candidate(
                    kind="bias",
                    fact=fact("recurrent.one_bias", network="both biases", twin="one", used=name),
                    change=lambda p, i=i, k=keep: _half(p, i, k),
                )
        for place, name in ((5, "initial state"), (6, "initial cell state")):
            if len(layer.inputs) > place and layer.inputs[place] is not None:
                yield Candidate(
                    kind="recurrent",
                    fact=fact("recurrent.from_zero", network=name, twin="zero"),
                    change=lambda p, i=i, k=place: _without(p, i, k),
                )


def _without(problem: Problem, i: int, place: int) -> Patch:
    inputs = list(problem.layers[i].inputs)
    inputs[place] = None
    return problem.change(i, inputs=inputs)


def _half(problem: Problem, i: int, keep: int) -> Patch:
    b = problem.tensor(i, 3).clone()
    half = b.shape[-1] // 2
    b[..., slice(half, None) if keep == 0 else slice(0, half)] = 0
    return problem.give(i, 3, b)


def _gates(problem: Problem, i: int, order: tuple[int, ...]) -> Patch:
    layer: Layer = problem.layers[i]
    inputs, constants = list(layer.inputs), {}
    for place in (1, 2, 3):
        value = problem.operand(i, place)
        if value is None:
            continue
        axis = 1
        parts = list(value.chunk((2 if place == 3 else 1) * len(order), axis))
        halves = [parts[k : k + len(order)] for k in range(0, len(parts), len(order))]
        new = f"{layer.outputs[0]}/gates{place}"
        constants[new] = torch.cat([half[k] for half in halves for k in order], axis)
        inputs[place] = new
    return Patch(i, i + 1, (replace(layer, inputs=tuple(inputs)),), constants)
