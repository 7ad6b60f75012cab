"""Faults where usual data does not go: behind a bound, a branch, a row or a channel that it never reaches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.hidden.attack import attack, checked, function
from benchmarks.hidden.nets import Bounded, Branches, Classifier, Clipped, Features, Lookup, picture

_SHAPE = {"x": (1, 3, 16, 16)}


def _register(bound: str) -> None:
    @attack(f"a lost {bound} on the input, synthetic data")
    def synthetic(rng: np.random.Generator) -> Any:
        net = Clipped(bound).eval()
        twin = copy.deepcopy(net)
        twin.lost = True
        return checked(net, None, function(twin), shapes=_SHAPE)

    @attack(f"a lost {bound} on the input, given data")
    def given(rng: np.random.Generator) -> Any:
        net = Clipped(bound).eval()
        twin = copy.deepcopy(net)
        twin.lost = True
        return checked(net, picture(int(rng.integers(99))), function(twin))

    @attack(f"a {bound} on the input that only the twin has, synthetic data")
    def gained(rng: np.random.Generator) -> Any:
        net = Clipped(bound, lost=True).eval()
        twin = copy.deepcopy(net)
        twin.lost = False
        return checked(net, None, function(twin), shapes=_SHAPE)


for _bound in ("clip", "relu", "abs"):
    _register(_bound)


def _register_bounded(where: str, at: int) -> None:
    @attack(f"a clip at 6 that only the twin has, {where}, its layers unknown")
    def opaque(rng: np.random.Generator) -> Any:
        return checked(*_bounded(None, at, function), shapes=_SHAPE)

    @attack(f"a clip at 6 that only the twin has, {where}, its layers known")
    def known(rng: np.random.Generator) -> Any:
        return checked(*_bounded(None, at, copy.deepcopy), shapes=_SHAPE)

    @attack(f"a clip at 6 that only the twin has, {where}, given data")
    def given(rng: np.random.Generator) -> Any:
        return checked(*_bounded(picture(int(rng.integers(99)), 1, 3, 16, 16), at, copy.deepcopy))


def _bounded(data: Any, at: int, made: Callable[[torch.nn.Module], Any]) -> tuple[Any, Any, Any]:
    net = Bounded().eval()
    twin = copy.deepcopy(net)
    twin.at = at
    return net, data, made(twin)


for _at, _where in enumerate(("on the input", "between layers", "on the output")):
    _register_bounded(_where, _at)


class Written(torch.nn.Module):
    """A function as a network."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _register_written(name: str, right: Any, wrong: Any) -> None:
    @attack(name)
    def written(rng: np.random.Generator) -> Any:
        if rng.integers(2):
            return checked(Written(right), None, function(Written(wrong)), shapes=_SHAPE)
        return checked(Written(right), picture(int(rng.integers(99))), function(Written(wrong)))


_register_written(
    "a lost bound, written as a maximum", lambda x: torch.maximum(x, torch.tensor(-0.5)), lambda x: x
)
_register_written("a lost mask, made by a comparison", lambda x: x * (x > -1.5), lambda x: x)
_register_written("an odd power without its sign", lambda x: x**3, lambda x: x.abs() ** 3)


@attack("a lost upper bound")
def upper(rng: np.random.Generator) -> Any:
    net = Features().eval()
    twin = copy.deepcopy(net)
    twin.act = torch.nn.ReLU()
    return checked(net, None, function(twin), shapes=_SHAPE)


@attack("a part of the output that is 0 on this data")
def dead(rng: np.random.Generator) -> Any:
    net = Features().eval()
    twin = copy.deepcopy(net)
    twin.shift = 0.5
    return checked(net, [picture(1), picture(2)], function(twin))


@attack("the choice that is never made, synthetic data")
def branch(rng: np.random.Generator) -> Any:
    net = Branches().eval()
    twin = copy.deepcopy(net)
    twin.other = 3.0
    return checked(net, None, function(twin), shapes=_SHAPE)


@attack("the choice that is never made, given data")
def branch_given(rng: np.random.Generator) -> Any:
    net = Branches().eval()
    twin = copy.deepcopy(net)
    twin.other = 3.0
    return checked(net, picture(int(rng.integers(99))), function(twin))


@attack("a row of a table that is seldom read")
def row(rng: np.random.Generator) -> Any:
    net = Lookup().eval()
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.table.weight[int(rng.integers(4000, 5000))] += 1
    return checked(net, torch.arange(12)[None], function(twin))


@attack("inputs that are 0 everywhere")
def zero(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.body[0].weight.mul_(2)
    return checked(net, torch.zeros(1, 3, 12, 12), function(twin))


@attack("outputs that are saturated")
def saturated(rng: np.random.Generator) -> Any:
    class Saturated(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(200 + super().forward(x))

    net = Saturated().eval()
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.last.weight.mul_(1.1)
    return checked(net, picture(int(rng.integers(99))), function(twin))
