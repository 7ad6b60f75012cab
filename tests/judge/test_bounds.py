"""Which sides a layer has, and when data reaches them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinnet.judge.bounds import sides_of
from twinnet.layers.graph import Graph, Layer

POOL = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}


def _sides(*layers: Layer, constants: dict[str, torch.Tensor] | None = None) -> list[tuple[str, float]]:
    graph = Graph(layers, ("x",), layers[-1].outputs, constants or {})
    makers = {name: layer for layer in layers for name in layer.outputs}
    return [(side.code, side.bound) for side in sides_of(layers[-1], graph, makers)]


def test_a_padded_maximum_has_a_border() -> None:
    assert _sides(Layer("max_pool", ("x",), ("y",), POOL)) == [("border", 0.0)]
    assert _sides(Layer("max_pool", ("x",), ("y",), {"kernel": (2, 2)})) == []


@pytest.mark.parametrize("kinds", [("relu",), ("abs", "transpose"), ("sigmoid", "max_pool")])
def test_of_numbers_that_cannot_be_negative_it_has_none(kinds: tuple[str, ...]) -> None:
    names = ["x", *(f"h{i}" for i in range(len(kinds)))]
    before = [Layer(k, (a,), (b,)) for k, a, b in zip(kinds, names, names[1:], strict=False)]
    assert _sides(*before, Layer("max_pool", (names[-1],), ("y",), POOL)) == []


def test_the_border_is_reached_by_a_negative_maximum_there() -> None:
    layer = Layer("max_pool", ("x",), ("y",), POOL)
    (side,) = sides_of(layer, Graph((layer,), ("x",), ("y",)), {"y": layer})
    inside = np.ones((1, 1, 4, 4))
    inside[..., 1:3, 1:3] = -1
    assert side.tensor == "y" and side.reached(-np.ones((1, 1, 4, 4))) and not side.reached(inside)


@pytest.mark.parametrize(
    ("kind", "bound", "codes"),
    [
        ("greater", 3.0, ["below", "above", "equal"]),
        ("greater", 0.5, ["below", "above"]),
        ("not_equal", 17.0, ["equal", "unequal"]),
        ("max", 0.0, ["below", "above"]),
    ],
)
def test_a_number_that_is_compared_with(kind: str, bound: float, codes: list[str]) -> None:
    found = _sides(Layer(kind, ("x", "c"), ("y",)), constants={"c": torch.tensor(bound)})
    assert found == [(code, bound) for code in codes]


def test_operators_without_a_form_of_their_own() -> None:
    assert _sides(Layer("opaque", ("x",), ("y",), op="nan_to_num")) == [("nan", 0.0)]
    assert _sides(Layer("opaque", ("x",), ("y",), op="rshift__")) == [("below", 0.0)]
    assert _sides(Layer("opaque", ("x",), ("y",), op="erfinv")) == []
