"""Discrete kinds: which flips are excused, and which are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from twinnet.layers import Layer, kinds


def excuse(
    kind: str, attrs: dict[str, Any], x: Any, error: Any, got: Any, *rest: Any, output: int = 0
) -> list[bool]:
    x = torch.tensor(x, dtype=torch.float64)
    e = None if error is None else torch.full(x.shape, error)
    inputs = [x, *rest]
    outputs = kinds.get(kind).evaluate(attrs, *inputs)
    layer = Layer(kind, ("x",), ("y",), attrs)
    allowed = kinds.get(layer.kind).flips(layer.attrs, inputs, [e, *[None] * len(rest)], outputs)[output]
    assert allowed is not None
    return allowed.excuses(outputs[output], torch.tensor(got).to(outputs[output].dtype)).reshape(-1).tolist()


def test_round_flips_only_near_a_half() -> None:
    assert excuse("round", {}, [2.4999, 2.4, 2.5001], 1e-3, [3.0, 3.0, 2.0]) == [True, False, True]
    assert excuse("round", {}, [2.4999], None, [3.0]) == [False]
    assert excuse("round", {}, [2.4999], 1e-3, [4.0]) == [False]


@pytest.mark.parametrize(
    ("kind", "near", "flipped"), [("floor", 2.9999, 3.0), ("ceil", 2.0001, 2.0), ("trunc", 2.9999, 3.0)]
)
def test_edges_of_the_other_roundings(kind: str, near: float, flipped: float) -> None:
    assert excuse(kind, {}, [near, 2.5], 1e-3, [flipped, flipped]) == [
        True,
        flipped == float(getattr(torch, kind)(torch.tensor(2.5))),
    ]


def test_cast_to_integers_and_bool() -> None:
    assert excuse("cast", {"to": torch.int32}, [2.9999, 2.5], 1e-3, [3, 3]) == [True, False]
    assert excuse("cast", {"to": torch.bool}, [1e-5, 0.5], 1e-3, [False, False]) == [True, False]


def test_cast_between_floats_is_rounding() -> None:
    kind = kinds.get("cast")
    x = torch.tensor([1.0, 100.0], dtype=torch.float64)
    attrs = {"to": torch.float16}
    assert kind.flips(attrs, [x], [None], [x]) == (None,)
    (error,) = kind.error(attrs, [x], [None], [x], 2.0**-24)
    assert error is not None
    assert torch.allclose(error, x.float() * 2.0**-11)
    (wider,) = kind.error({"to": torch.float32}, [x], [None], [x], 2.0**-24)
    assert wider is None
    (big,) = kind.evaluate({"to": torch.float16}, torch.tensor([1e6], dtype=torch.float64))
    assert torch.isinf(big).all()


def test_comparisons_flip_within_both_errors() -> None:
    other = torch.tensor([1.0, 1.0], dtype=torch.float64)
    assert excuse("less", {}, [1.0001, 1.5], 1e-3, [True, True], other) == [True, False]
    assert excuse("equal", {}, [1.0001, 1.5], 1e-3, [True, True], other) == [True, False]


def test_argmax_accepts_a_tie_and_nothing_else() -> None:
    x = [[1.0, 3.0, 2.9999, 0.0], [1.0, 3.0, 2.0, 3.0]]
    attrs = {"axis": 1, "keepdims": False}
    assert excuse("argmax", attrs, x, 1e-3, [2, 3]) == [True, True]
    assert excuse("argmax", attrs, x, 1e-3, [0, 2]) == [False, False]
    # Of equal numbers that no rounding touched the first one counts.
    assert excuse("argmax", attrs, x, None, [2, 3]) == [False, False]
    assert excuse("argmax", attrs, x, None, [1, 1]) == [True, True]
    assert excuse("argmin", attrs, x, 1e-3, [0, 0]) == [False, True]
    assert excuse("argmax", attrs, x, 1e-3, [9, -9]) == [False, False]


def test_topk_indices_follow_their_values() -> None:
    x = [1.0, 3.0, 2.9999, 0.0]
    assert excuse("topk", {"k": 2}, x, 1e-3, [2, 1], output=1) == [True, True]
    assert excuse("topk", {"k": 2}, x, None, [2, 1], output=1) == [False, False]
    assert excuse("topk", {"k": 2}, x, 1e-3, [1, 0], output=1) == [True, False]


def test_quantize_moves_one_step_only_at_a_tie() -> None:
    scale, zero = torch.tensor(0.5, dtype=torch.float64), torch.tensor(10, dtype=torch.uint8)
    near = 0.5 * 3.5 * (1 - 1e-8)  # within float32 rounding of a tie
    assert excuse("quantize_linear", {}, [near, 1.6], None, [14, 14], scale, zero) == [True, False]
    assert excuse("quantize_linear", {}, [near], None, [15], scale, zero) == [False]
    assert excuse("quantize_linear", {}, [1.6], 0.3, [14], scale, zero) == [True]


def test_max_pool_indices_may_tie() -> None:
    x = torch.tensor([[[1.0, 1.0, 0.0, 2.0]]], dtype=torch.float64)
    kind, attrs = kinds.get("max_pool"), {"kernel": (2,), "strides": (2,)}
    outputs = kind.evaluate(attrs, x)
    assert outputs[1].tolist() == [[[0, 3]]]
    allowed = kind.flips(attrs, [x], [None], outputs)[1]
    assert allowed is not None
    assert allowed.excuses(outputs[1], torch.tensor([[[1, 2]]])).reshape(-1).tolist() == [True, False]


def test_where_knows_that_its_condition_may_flip() -> None:
    kind = kinds.get("where")
    c, a, b = torch.tensor([True, True]), torch.tensor([1.0, 1.0]), torch.tensor([4.0, 4.0])
    (error,) = kind.error({}, [c, a, b], [torch.tensor([1.0, 0.0]), None, None], [a], 2.0**-24)
    assert error is not None
    assert error.tolist() == [3.0, 0.0]


def test_division_by_something_that_may_be_zero_is_unbounded() -> None:
    a, b = torch.tensor([1.0, 1.0], dtype=torch.float64), torch.tensor([1e-3, 1.0], dtype=torch.float64)
    (error,) = kinds.get("div").error({}, [a, b], [None, torch.tensor([2e-3, 2e-3])], [a / b], 2.0**-24)
    assert error is not None
    assert error[0] == float("inf")
    assert 2e-3 < float(error[1]) < 2.1e-3
