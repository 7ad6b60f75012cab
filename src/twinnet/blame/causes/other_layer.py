"""The weights of another layer: two that were exchanged, or one that was read twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.causes.scale_bias import WEIGHTED
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Graph, Layer
from twinnet.result import fact

_KINDS = {*WEIGHTED, "lstm", "gru", "rnn"}
_OPERANDS = 4  # of a recurrent layer: input weights, recurrent weights and biases; the others have fewer
_MOST = 64
_LEAST = 4


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if problem.network is None:
        return
    for i, layer in enumerate(problem.layers):
        w = problem.constant(i, 1) if layer.kind in _KINDS else None
        if w is None or w.numel() < _LEAST:
            continue
        for other in _alike(problem.network, layer, w):
            theirs = _constants(problem.network.constants, other)
            mine = _constants(problem.constants, layer)
            weights = {k: v for k, v in theirs.items() if k in mine and v.dim() > 1}
            yield _candidate(i, weights, other, bias=False)
            if len(theirs) > len(weights) and theirs.keys() == mine.keys():
                yield _candidate(i, theirs, other, bias=True)


def owner(problem: Problem, name: str | None, value: torch.Tensor) -> str:
    """The label of the other layer that has these very weights; empty if none has."""
    if problem.network is None or value.numel() < _LEAST or value.dim() < 2:
        return ""
    for layer in problem.network:
        for read in layer.inputs[1:_OPERANDS]:
            constant = problem.network.constants.get(read or "")
            if read == name or not isinstance(constant, torch.Tensor) or constant.shape != value.shape:
                continue
            if torch.equal(constant, value.to(constant.dtype)):
                return layer.label
    return ""


def _alike(network: Graph, layer: Layer, w: torch.Tensor) -> list[Layer]:
    """Other layers of this kind whose weights have the same shape and other values."""
    found = []
    for other in network:
        if (
            other.kind != layer.kind
            or other.outputs == layer.outputs
            or other.inputs[1:2] == layer.inputs[1:2]
        ):
            continue
        theirs = network.constants.get(other.inputs[1] or "") if len(other.inputs) > 1 else None
        if (
            isinstance(theirs, torch.Tensor)
            and theirs.shape == w.shape
            and not torch.equal(theirs.to(w.dtype), w)
        ):
            found.append(other)
    return found[:_MOST]


def _constants(constants: Mapping[str, Any], layer: Layer) -> dict[int, torch.Tensor]:
    named = {k: constants.get(n or "") for k, n in enumerate(layer.inputs[:_OPERANDS]) if k}
    return {k: v for k, v in named.items() if isinstance(v, torch.Tensor)}


def _candidate(i: int, values: Mapping[int, torch.Tensor], other: Layer, *, bias: bool) -> Candidate:
    def change(problem: Problem) -> Patch:
        layer = problem.layers[i]
        inputs, constants = list(layer.inputs), {}
        for place, value in values.items():
            inputs[place] = f"{layer.outputs[0]}/other{place}"
            constants[inputs[place]] = value
        return Patch(i, i + 1, (replace(layer, inputs=tuple(inputs)),), constants)

    return Candidate(
        kind="weights",
        fact=fact("weights.of_another_layer", network=None, twin=other.label, bias=bias),
        change=change,
        cost=1.5,
        whole=True,
        what="other layer",
    )
