"""Simplifying a graph changes its form and never its values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from twinnet.layers import Graph, Layer, evaluate
from twinnet.layers.read_fx import read_fx
from twinnet.layers.simplify import simplified

NETS = {
    "conv and batch norm": (
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU()),
        (2, 3, 6, 6),
    ),
    "depthwise, no bias": (
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=4, bias=False), nn.BatchNorm2d(4)),
        (1, 4, 6, 6),
    ),
    "transposed": (nn.Sequential(nn.ConvTranspose2d(3, 5, 2, stride=2), nn.BatchNorm2d(5)), (1, 3, 4, 4)),
    "transposed in groups": (
        nn.Sequential(nn.ConvTranspose2d(4, 4, 2, groups=2), nn.BatchNorm2d(4)),
        (1, 4, 4, 4),
    ),
    "linear": (nn.Sequential(nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.Dropout()), (3, 6)),
    "batch norm first": (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1)), (1, 3, 4, 4)),
}


@pytest.mark.parametrize("name", NETS)
def test_values_stay(name: str) -> None:
    net, shape = NETS[name]
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
            nn.init.uniform_(module.weight, 0.5, 2, generator=generator)
    x = torch.randn(shape, generator=generator)
    graph = read_fx(torch.export.export(net.eval(), (x,)))
    simple = simplified(graph)
    before, after = (evaluate(g, {graph.inputs[0]: x})[graph.outputs[0]] for g in (graph, simple))
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)
    folds = name not in ("batch norm first", "transposed in groups")
    assert ("batch_norm" not in {layer.kind for layer in simple}) == folds


def test_a_value_that_is_read_twice_is_not_folded_away() -> None:
    constants = {n: torch.ones(1) for n in ("s", "b", "m", "v")} | {"w": torch.ones(1, 1, 1, 1)}
    layers = (
        Layer(
            "conv",
            ("x", "w", None),
            ("c",),
            {"pads": (0, 0, 0, 0), "strides": (1, 1), "dilations": (1, 1), "group": 1},
        ),
        Layer("batch_norm", ("c", "s", "b", "m", "v"), ("n",), {"eps": 1e-5}),
        Layer("add", ("c", "n"), ("y",)),
    )
    graph = Graph(layers, ("x",), ("y",), constants)
    assert [layer.kind for layer in simplified(graph)] == ["conv", "batch_norm", "add"]


def test_products_have_one_form() -> None:
    weight, bias = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, -1.0, 0.5])
    constants = {"w": weight, "wt": weight.t().contiguous(), "b": bias}
    forms = [
        (Layer("gemm", ("x", "w", "b"), ("y",)),),
        (Layer("gemm", ("x", "wt", "b"), ("y",), {"trans_b": True}),),
        (Layer("matmul", ("x", "w"), ("p",)), Layer("add", ("b", "p"), ("y",))),
        (Layer("linear", ("x", "wt", "b"), ("y",)),),
    ]
    x = torch.tensor([[1.0, 2.0]])
    for layers in forms:
        simple = simplified(Graph(layers, ("x",), ("y",), constants))
        (layer,) = simple.layers
        assert layer.kind == "linear"
        assert torch.equal(simple.constants[layer.inputs[1] or ""], weight.t())
        assert torch.equal(evaluate(simple, {"x": x})["y"], (x @ weight + bias).double())
