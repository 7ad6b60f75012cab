"""Modules cut short: the same values and names as in the whole, and exported without what comes after."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from twinnet.ladder.early import cut_short
from twinnet.network import TorchNetwork


class Odd(nn.Module):
    """Calls a submodule twice, returns a dict, and does what cannot be exported at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)
        self.pair = Pair()

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        y = self.twice(torch.relu(self.twice(x)) * scale)
        a, b = self.pair(y)
        return a + b if float(a.sum()) > 0 else a - b


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x - 1


def test_every_call_can_be_the_last() -> None:
    net, x = Odd().eval(), torch.randn(2, 4)
    first = net.twice(x)
    assert torch.equal(cut_short(net, "twice")(x), first)
    second = net.twice(torch.relu(first) * 3.0)
    assert torch.equal(cut_short(net, "twice", 1)(x, scale=3.0), second)
    assert all(map(torch.equal, cut_short(net, "pair")(x, 3.0), (second + 1, second - 1)))
    assert not net.twice._forward_hooks and torch.equal(net(x), net(x))


def test_a_module_that_was_wrapped() -> None:
    net, x = Odd().eval(), torch.randn(2, 4)
    inner = net.forward
    net.forward = lambda *args: inner(args[0] * 2)  # type: ignore[method-assign, assignment]
    assert torch.equal(cut_short(net, "twice")(x), net.twice(x * 2))


def test_a_cut_is_exported_with_its_names_although_the_rest_cannot_be() -> None:
    net, x = Odd().eval(), torch.randn(2, 4)
    whole = TorchNetwork(net, example=x)
    assert whole.exported({"x": x}) is None
    program: Any = TorchNetwork(cut_short(net, "pair"), example=x).exported({"x": x})
    assert program is not None
    paths = [
        list(n.meta["nn_module_stack"].values())[-1][0]
        for n in program.graph.nodes
        if n.op == "call_function"
    ]
    assert paths[0] == "twice" and paths[-1] == "pair"
    made = program.module()(x)
    assert all(map(torch.allclose, made, cut_short(net, "pair")(x)))
