"""The born test, with known answers: where an error was put, and only there, it is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.judge.graphs import UNIT, Bench, chain
from twinnet.layers.graph import Graph, Layer
from twinnet.result import fact


def _weights(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def bench() -> Bench:
    graph = chain(
        Layer("matmul", ("x", "w1"), ("a",), module="first"),
        Layer("relu", ("a",), ("b",), module="act"),
        Layer("matmul", ("b", "w2"), ("c",), module="second"),
        Layer("sigmoid", ("c",), ("d",), module="gate"),
        Layer("mul", ("d", "b"), ("e",), module="mix"),
        constants={"w1": _weights(0, 8, 16), "w2": _weights(1, 16, 16)},
    )
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    return Bench(graph, {"x": x})


def _statuses(bench: Bench, **options: float) -> dict[str, str]:
    return {name: born.status for name, born in bench.judge(**options).items()}


def test_rounding_alone_passes_everywhere(bench: Bench) -> None:
    found = bench.judge()
    assert {b.status for b in found.values()} == {"pass"}
    assert all(b.ratio is not None and b.ratio <= 1.5 for b in found.values())


@pytest.mark.parametrize("place", ["a", "b", "c", "d", "e"])
def test_an_error_is_found_where_it_was_born_and_only_there(bench: Bench, place: str) -> None:
    order = ["a", "b", "c", "d", "e"]
    at = int(np.abs(bench.twin[place]).argmax())
    bench.twin[place].flat[at] *= 1.001
    bench.recompute(*order[order.index(place) + 1 :])  # the twin passes its error on, correctly
    found = bench.judge()
    assert [name for name, b in found.items() if b.status == "fail"] == [place]
    born = found[place]
    assert born.ratio is not None and born.ratio > 4
    assert born.born == pytest.approx(abs(bench.twin[place].flat[at]) * 0.001, rel=0.01)
    assert born.reason == fact("born.too_large")


def test_inherited_error_is_silent_however_large(bench: Bench) -> None:
    bench.twin["a"] = bench.twin["a"] * 3 + 1
    bench.recompute("b", "c", "d", "e")
    found = bench.judge()
    assert [name for name, b in found.items() if b.status == "fail"] == ["a"]


def test_an_unpaired_layer_is_part_of_the_next_segment(bench: Bench) -> None:
    bench.paired = ("b", "e")
    bench.twin["c"] = bench.twin["c"] * 1.01
    bench.recompute("d", "e")
    found = bench.judge()
    assert found["b"].status == "pass" and found["e"].status == "fail"
    assert found["e"].segment == ("mix mul", "gate sigmoid", "second matmul")


def test_an_error_below_the_floor_is_not_accused(bench: Bench) -> None:
    bench.twin["c"] = np.nextafter(bench.twin["c"], np.float32(np.inf))
    bench.recompute("d", "e")
    assert set(_statuses(bench).values()) == {"pass"}


def test_values_as_small_as_rounding_are_untested() -> None:
    graph = chain(Layer("sub", ("x", "one"), ("y",)), constants={"one": torch.ones(1)})
    x = (1 + np.float32(UNIT) * np.arange(2, 18)).astype(np.float32)
    bench = Bench(graph, {"x": x})
    # x - 1 is exact in float32 but only a few hundred units of rounding of its operands.
    bench.twin["y"] = bench.twin["y"] * 0
    found = bench.judge()["y"]
    assert found.status in ("untested", "fail")
    zero = Bench(chain(Layer("mul", ("x", "z"), ("y",)), constants={"z": torch.zeros(1)}), {"x": x})
    assert zero.judge()["y"].status == "untested"


def test_nan_and_inf_must_stand_in_the_same_places() -> None:
    graph = chain(Layer("log", ("x",), ("y",)))
    x = np.float32([-1, 0, 1, 2, 3, 0.5])
    bench = Bench(graph, {"x": x})
    assert np.isnan(bench.twin["y"][0]) and np.isinf(bench.twin["y"][1])
    assert bench.judge()["y"].status == "pass"
    for index, value, words in [
        (0, 0.0, "0 NaN where the network has 1"),
        (2, math.nan, "2 NaN"),
        (1, math.inf, "Inf"),
    ]:
        bent = Bench(graph, {"x": x})
        bent.twin["y"][index] = value
        born = bent.judge()["y"]
        assert born.status == "fail" and words in str(born.reason), (index, born)


def test_a_number_beside_nan_is_still_judged() -> None:
    bench = Bench(chain(Layer("log", ("x",), ("y",))), {"x": np.float32([-1, 0, 1, 2, 3, 0.5])})
    bench.twin["y"][3] *= 1.01
    assert bench.judge()["y"].status == "fail"


def test_overflow_of_the_twins_own_format_is_no_fault() -> None:
    bench = Bench(chain(Layer("mul", ("x", "x"), ("y",))), {"x": np.float32([1e30, 2, 3])})
    assert np.isinf(bench.twin["y"][0])
    assert bench.judge()["y"].status == "pass"
    bench.twin["y"][0] = -np.inf
    assert bench.judge()["y"].status == "fail"


def _argmax(x: np.ndarray) -> Bench:
    graph = chain(
        Layer("matmul", ("x", "w"), ("s",)),
        Layer("argmax", ("s",), ("i",), {"axis": 1, "keepdims": False}),
        constants={"w": torch.eye(4)},
    )
    return Bench(graph, {"x": x}, paired=("s", "i"))


def test_a_flip_is_excused_only_at_a_tie() -> None:
    near = np.nextafter(np.float32(1), np.float32(2))
    tie = _argmax(np.float32([[1.0, near, 0.0, 0.0], [0.0, 3.0, 1.0, 0.0]]))
    assert tie.twin["i"].tolist() == [1, 1]
    tie.twin["i"][0] = 0
    born = tie.judge()["i"]
    assert born.status == "excused" and "1 flip" in str(born.reason)
    clear = _argmax(np.float32([[1.0, 1.1, 0.0, 0.0], [0.0, 3.0, 1.0, 0.0]]))
    clear.twin["i"][0] = 0
    born = clear.judge()["i"]
    assert born.status == "fail" and "1 of 2 elements differ" in str(born.reason)
    wrong = _argmax(np.float32([[1.0, near, 0.0, 0.0], [0.0, 3.0, 1.0, 0.0]]))
    wrong.twin["i"][0] = 3  # not one of those that tie
    assert wrong.judge()["i"].status == "fail"


def test_a_comparison_flips_only_at_its_edge() -> None:
    graph = chain(
        Layer("mul", ("x", "third"), ("h",)),
        Layer("greater", ("h", "edge"), ("y",)),
        constants={"third": torch.tensor([1 / 3]), "edge": torch.tensor([1.0])},
    )
    x = np.float32([3.0, 2.0, 9.0])
    bench = Bench(graph, {"x": x}, paired=("h", "y"))
    bench.recompute("y")
    bench.twin["y"] = ~bench.twin["y"]
    born = bench.judge()["y"]
    assert born.status == "fail" and "2 of 3" in str(born.reason)
    bench = Bench(graph, {"x": x}, paired=("h", "y"))
    bench.recompute("y")
    bench.twin["y"][0] = ~bench.twin["y"][0]
    assert bench.judge()["y"].status == "excused"


def test_what_cannot_be_evaluated_is_never_judged(bench: Bench) -> None:
    graph = bench.graph
    layers = (
        *graph.layers[:2],
        Layer("opaque", ("b", "w2"), ("c",), {"unknown": "strange"}),
        *graph.layers[3:],
    )
    strange = Bench.__new__(Bench)
    strange.__dict__.update(bench.__dict__)
    strange.graph = Graph(layers, graph.inputs, graph.outputs, graph.constants)
    strange.twin["c"] = strange.twin["c"] + 100
    found = strange.judge()
    assert found["c"].status == "not judged" and found["c"].reason
    assert found["a"].status == found["b"].status == "pass"


def test_another_shape_or_kind_of_number_fails(bench: Bench) -> None:
    bench.twin["e"] = bench.twin["e"].reshape(-1)
    assert "shape 64 where the network has 4x16" in str(bench.judge()["e"].reason)
    bench.twin["e"] = np.ones((4, 16), np.int64)
    born = bench.judge()["e"]
    assert born.status == "fail" and "integer where the network has float" in str(born.reason)


def test_structural_layers_must_be_bit_equal() -> None:
    graph = chain(Layer("transpose", ("x",), ("y",), {"perm": (1, 0)}))
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    bench = Bench(graph, {"x": x})
    assert bench.judge()["y"].status == "pass"
    bench.twin["y"] = np.ascontiguousarray(bench.twin["y"])
    bench.twin["y"][1, 1] = np.nextafter(bench.twin["y"][1, 1], np.float32(9)) + np.float32(1e-5)
    assert bench.judge()["y"].status == "fail"


def test_a_twin_is_judged_at_its_own_precision(bench: Bench) -> None:
    import ml_dtypes

    for name in "abcde":
        bench.twin[name] = bench.twin[name].astype(ml_dtypes.bfloat16)
    assert set(_statuses(bench, unit=2.0**-8).values()) <= {"pass", "untested"}
    assert "fail" in _statuses(bench).values()  # as a float32 twin this would be a fault
    bench.twin["c"] = (bench.twin["c"].astype(np.float32) * 1.5).astype(ml_dtypes.bfloat16)
    assert _statuses(bench, unit=2.0**-8)["c"] == "fail"


def test_chance_joins_the_floor(bench: Bench) -> None:
    bench.twin["c"] = bench.twin["c"] + np.float32(1e-4)
    bench.recompute("d", "e")
    assert bench.judge()["c"].status == "fail"
    assert bench.judge(spread={"c": 1e-4})["c"].status == "pass"
    assert bench.judge(spread={"c": 1e-6})["c"].status == "fail"


def test_empty_and_scalar_tensors() -> None:
    graph = chain(Layer("neg", ("x",), ("y",)))
    assert Bench(graph, {"x": np.zeros((0, 3), np.float32)}).judge()["y"].status in ("pass", "untested")
    scalar = Bench(graph, {"x": np.array(2.0, np.float32)})
    assert scalar.judge()["y"].status == "pass"
    scalar.twin["y"] = np.array(-2.5, np.float32)
    assert scalar.judge()["y"].status == "fail"


def test_in_float64_a_float32_error_is_a_fault(bench: Bench) -> None:
    assert "fail" in _statuses(bench, unit=2.0**-53).values()
