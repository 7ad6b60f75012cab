"""Constants that a converter moved into later weights: no fault where the function is the same, a fault where not."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import twinnet
from twinnet.result import Result

WIDTH = 12


class _Net(nn.Module):
    """Linear layers: one, `more` without biases, and `heads` that read the result."""

    def __init__(self, more: int = 0, heads: int = 1) -> None:
        super().__init__()
        self.first = nn.Linear(8, WIDTH)
        self.between = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(more))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 4) for _ in range(heads))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        for layer in self.between:
            y = layer(y)
        return tuple(head(y) for head in self.heads)


def _moved(net: _Net) -> _Net:
    """The same function: what the first layer adds more, the last ones add less."""
    twin = copy.deepcopy(net)
    with torch.no_grad():
        constant = torch.linspace(0.2, 2, WIDTH)
        twin.first.bias += constant
        for layer in net.between:
            constant = layer(constant)
        for head in twin.heads:
            head.bias -= head.weight @ constant
    return twin


def _checked(net: nn.Module, twin: nn.Module, folder: Path) -> Result:
    """Check against a file whose values are called otherwise, so that they are paired by structure."""
    inputs = torch.randn(5, 8)
    made = torch.onnx.export(twin.eval(), (inputs,), dynamo=True, verbose=False)
    assert made is not None
    file = folder / "twin.onnx"
    for number, node in enumerate(made.model.graph):
        for value in node.outputs:
            if not value.is_graph_output():
                value.name = f"v{number}"
        node.metadata_props.clear()
    made.save(str(file))
    found = twinnet.check(net.eval(), inputs, str(file), keep="none")
    assert isinstance(found, Result)
    return found


def _let_go(found: Result) -> tuple[str, ...]:
    return next((g.fact.params["tensors"] for g in found.guards if g.fact.code == "pairing.moved"), ())


@pytest.mark.parametrize(("more", "heads"), [(0, 1), (0, 2), (1, 1), (2, 2)])
def test_the_same_function_passes(more: int, heads: int, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = _Net(more, heads)
    found = _checked(net, _moved(net), tmp_path)
    assert found.verdict == "PASS", found
    assert len(_let_go(found)) == more + 1
    assert len(found.pairs) == heads


@pytest.mark.parametrize("where", ["first", "head", "one head", "a little"])
def test_another_function_fails(where: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = _Net(0, 2)
    twin = _moved(net)
    with torch.no_grad():
        if where == "first":
            twin.first.weight[2, 1] += 0.1
        else:
            for head in twin.heads if where == "head" else twin.heads[:1]:
                head.bias[1] += 1e-5 if where == "a little" else 0.1
    found = _checked(net, twin, tmp_path)
    assert found.verdict == "FAIL", found


def test_a_wrong_layer_before_right_ones_is_not_let_go(tmp_path: Path) -> None:
    """It does no harm to what reads it but by its values, however large the floor behind it."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, WIDTH), nn.Linear(WIDTH, 4))
    twin = nn.Sequential(nn.Linear(8, WIDTH), nn.Linear(WIDTH, 4))
    twin.load_state_dict(net.state_dict())
    with torch.no_grad():  # the layer behind sees next to nothing of it
        for each in (net, twin):
            each[1].weight[:, 3] = 1e-9
            each[1].weight[:, 4] = 100.0
        twin[0].bias[3] += 0.5
    found = _checked(net, twin, tmp_path)
    assert found.verdict == "FAIL" and not _let_go(found), found
