"""Numbers in two files that no run tells apart."""

from __future__ import annotations

import torch

from twinnet.judge.files import files_differ
from twinnet.layers.graph import Graph, Layer


def _net(weight: torch.Tensor, eps: float = 1e-5, kind: str = "relu") -> Graph:
    layers = (
        Layer("linear", ("x", "w"), ("h",)),
        Layer("layer_norm", ("h",), ("n",), {"eps": eps, "axis": -1}),
        Layer(kind, ("n",), ("y",)),
    )
    return Graph(layers, ("x",), ("y",), {"w": weight})


W = torch.linspace(-1, 1, 12).reshape(3, 4)


def test_one_weight_and_one_number_are_named() -> None:
    other = W.clone()
    other[1, 2] += 0.01
    (guard,) = files_differ(_net(W), _net(other, eps=1e-3))
    assert guard.weakens
    assert [f.code for f in guard.fact.params["changes"]] == ["files.weight", "files.attribute"]
    assert "1 of 12 numbers" in guard.message and "eps is 1e-05 in the network, 0.001" in guard.message


def test_rounding_on_the_way_is_no_difference() -> None:
    assert files_differ(_net(W), _net(W * (1 + 2.0**-23))) == []


def test_other_layers_change_numbers_rightly() -> None:
    assert files_differ(_net(W), _net(2 * W, kind="sigmoid")) == []
    assert files_differ(_net(W), None) == []


def test_whole_numbers_and_masks_say_the_same_in_several_ways() -> None:
    def shaped(to: list[int], mask: float) -> Graph:
        layers = (Layer("reshape", ("x", "s"), ("h",)), Layer("add", ("h", "m"), ("y",)))
        held = {"s": torch.tensor(to), "m": torch.tensor([0.0, mask])}
        return Graph(layers, ("x",), ("y",), held)

    assert files_differ(shaped([1, 2], -torch.inf), shaped([-1, 2], -1e9)) == []
    assert files_differ(shaped([1, 2], 0.5), shaped([1, 2], 0.25))
