"""The walk over a graph: what is kept, what is dropped, what is said when it cannot go on."""

from __future__ import annotations

import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twinnet.errors import EngineError
from twinnet.layers import Graph, Layer, evaluate, evaluate_with_error
from twinnet.layers._blocks import BLOCK, blocks
from twinnet.layers.kinds import Kind, UnknownLayer, _base

UNIT = 2.0**-24
CHAIN = Graph(
    (
        Layer("mul", ("x", "c"), ("a",)),
        Layer("relu", ("a",), ("b",)),
        Layer("add", ("b", "x"), ("y",)),
    ),
    ("x",),
    ("y",),
    {"c": torch.tensor(3.0)},
)


def test_only_some_layers_from_given_values() -> None:
    b = torch.tensor([1.0, 2.0])
    got = evaluate(CHAIN, {"b": b, "x": torch.tensor([10.0, 20.0])}, layers=[2])
    assert got["y"].tolist() == [11.0, 22.0]
    assert got["y"].dtype == torch.float64


def test_given_values_win_over_layers() -> None:
    got = evaluate(CHAIN, {"x": torch.tensor([1.0]), "a": torch.tensor([-5.0])}, keep=["b", "y"])
    assert got["b"].tolist() == [0.0]
    assert got["y"].tolist() == [1.0]


def test_types_stay_when_not_widened() -> None:
    graph = Graph((Layer("transpose", ("x",), ("y",), {"perm": (1, 0)}),), ("x",), ("y",))
    x = torch.randn(3, 4)
    y = evaluate(graph, {"x": x}, widen=False)["y"]
    assert y.dtype == torch.float32
    assert torch.equal(y, x.t())


def test_values_are_dropped_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []
    seen: list[int] = []

    def make(attrs, x):
        y = x + 1
        alive.append(weakref.ref(y))
        seen.append(sum(r() is not None for r in alive))
        return (y,)

    monkeypatch.setitem(_base._KINDS, "probe", Kind("probe", make, lambda *a: (None,)))
    layers = tuple(Layer("probe", (f"v{i}",), (f"v{i + 1}",)) for i in range(12))
    evaluate(Graph(layers, ("v0",), ("v12",)), {"v0": torch.zeros(4)})
    assert max(seen) <= 3


def test_a_missing_value_is_named() -> None:
    with pytest.raises(EngineError, match="'x', needed by layer mul"):
        evaluate(CHAIN, {})


def test_a_layer_that_fails_is_named() -> None:
    graph = Graph((Layer("matmul", ("x", "x"), ("y",), node="bad", op="MatMul"),), ("x",), ("y",))
    with pytest.raises(EngineError, match="MatMul 'bad'"):
        evaluate(graph, {"x": torch.zeros(2, 3)})


def test_an_unknown_layer_says_why() -> None:
    graph = Graph((Layer("opaque", ("x",), ("y",), {"unknown": "RandomNormal is random"}),), ("x",), ("y",))
    with pytest.raises(UnknownLayer, match="RandomNormal is random"):
        evaluate(graph, {"x": torch.zeros(2)})
    with pytest.raises(UnknownLayer, match="unknown layer kind"):
        evaluate(Graph((Layer("nonsense", ("x",), ("y",)),), ("x",), ("y",)), {"x": torch.zeros(2)})


def test_an_opaque_layer_gets_a_floor_by_jitter() -> None:
    layer = Layer("opaque", ("x",), ("y",), {"run": lambda x: (torch.sin(x) * 3,)})
    x = torch.randn(5, 8)
    value, bound = evaluate_with_error(Graph((layer,), ("x",), ("y",)), {"x": x}, {}, unit=UNIT)["y"]
    assert bound is not None
    got = (torch.sin(x) * 3).to(torch.float64)
    assert bool(((got - value).abs() <= 4 * bound).all())
    assert float(bound.max()) < 1e-5


def test_infinite_values_have_no_bound_and_bounds_no_nan() -> None:
    graph = Graph(
        (Layer("add", ("x", "m"), ("s",)), Layer("softmax", ("s",), ("y",))), ("x", "m"), ("s", "y")
    )
    x = torch.randn(3, 4)
    m = torch.zeros(3, 4).masked_fill_(torch.ones(3, 4).triu(2).bool(), float("-inf"))
    for name, (value, bound) in evaluate_with_error(graph, {"x": x, "m": m}, {}, unit=UNIT).items():
        assert bound is not None, name
        assert not bool(torch.isnan(bound).any())
        assert bool((bound[~torch.isfinite(value)] == 0).all())
        assert bool(torch.isfinite(bound).all())


def test_blocks_give_what_the_whole_gives() -> None:
    """Large elementwise layers go block by block; small pieces of them go as a whole."""
    x = torch.randn(3, 7, 150, 160)
    c = torch.randn(7, 1, 1)
    graph = Graph(
        (
            Layer("mul", ("x", "c"), ("a",)),
            Layer("sigmoid", ("a",), ("b",)),
            Layer("clip", ("b",), ("d",), {"min": 0.25}),
            Layer("add", ("d", "x"), ("y",)),
        ),
        ("x", "c"),
        ("y", "b"),
    )
    assert x.numel() > BLOCK
    error = torch.rand(x.shape) * 1e-6
    large = evaluate_with_error(graph, {"x": x, "c": c}, {"x": error}, unit=UNIT, keep=["y", "b"])
    for i in range(3):
        small = evaluate_with_error(
            graph, {"x": x[i, :, :20], "c": c}, {"x": error[i, :, :20]}, unit=UNIT, keep=["y", "b"]
        )
        for name in ("y", "b"):
            (value, bound), (small_value, small_bound) = large[name], small[name]
            assert torch.equal(value[i, :, :20], small_value)
            assert bound is not None and small_bound is not None
            assert torch.equal(bound[i, :, :20], small_bound)


@given(st.lists(st.integers(1, 9), min_size=0, max_size=4), st.integers(1, 40))
def test_blocks_cover_a_tensor_in_order(shape: list[int], limit: int) -> None:
    flat = torch.arange(int(torch.tensor(shape).prod()) if shape else 1).reshape(shape)
    place = 0
    for start, stop, where in blocks(shape, limit):
        assert start == place
        assert flat[where].reshape(-1).tolist() == list(range(start, stop))
        place = stop
    assert place == flat.numel()
