"""Recurrent layers: gate order, direction, reset, activations, biases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch

from twinnet.blame.causes.family import Candidate, changed, family
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
            found = fact("recurrent.reset", network=ours, twin=not ours)
            yield changed("recurrent", found, i, linear_before_reset=not ours)
        direction = layer.attrs.get("direction", "forward")
        if direction != "bidirectional":
            other = "reverse" if direction == "forward" else "forward"
            found = fact("recurrent.direction", network=direction, twin=other)
            yield changed("recurrent", found, i, direction=other)
        if len(layer.inputs) > 3 and layer.inputs[3] is not None:
            found = fact("operator.left_out", network="bias", twin="nothing")
            yield changed("bias", found, i, inputs=_without(layer, 3))
            for keep, name in enumerate(("input", "recurrent")):
                yield Candidate(
                    kind="bias",
                    fact=fact("recurrent.one_bias", network="both biases", twin="one", used=name),
                    change=lambda p, i=i, k=keep: _half(p, i, k),
                )
        for place, name in ((5, "initial state"), (6, "initial cell state")):
            if len(layer.inputs) > place and layer.inputs[place] is not None:
                found = fact("recurrent.from_zero", network=name, twin="zero")
                yield changed("recurrent", found, i, inputs=_without(layer, place))


def _without(layer: Layer, place: int) -> list[str | None]:
    return [None if k == place else name for k, name in enumerate(layer.inputs)]


def _half(problem: Problem, i: int, keep: int) -> Patch:
    b = problem.tensor(i, 3).clone()
    half = b.shape[-1] // 2
    b[..., slice(half, None) if keep == 0 else slice(0, half)] = 0
    return problem.give(i, 3, b)


def _gates(problem: Problem, i: int, order: tuple[int, ...]) -> Patch:
    layer = problem.layers[i]
    inputs, constants = list(layer.inputs), {}
    for place in (1, 2, 3):
        value = problem.operand(i, place)
        if value is None:
            continue
        parts = list(value.chunk((2 if place == 3 else 1) * len(order), 1))
        halves = [parts[k : k + len(order)] for k in range(0, len(parts), len(order))]
        new = f"{layer.outputs[0]}/gates{place}"
        constants[new] = torch.cat([half[k] for half in halves for k in order], 1)
        inputs[place] = new
    return Patch(i, i + 1, (replace(layer, inputs=tuple(inputs)),), constants)
