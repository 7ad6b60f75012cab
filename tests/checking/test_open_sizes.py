"""Dimensions that a network leaves open."""

from __future__ import annotations

import numpy as np

from twinnet.checking.open_sizes import always_one_size, two_at_once
from twinnet.signature import TensorSpec

SPECS = (TensorSpec("x", "float32", ("N", "T", 4)), TensorSpec("mask", "float32", ("N", "T")))


def _sample(batch: int, length: int) -> dict[str, np.ndarray]:
    return {"x": np.zeros((batch, length, 4)), "mask": np.ones((batch, length))}


def _shapes(sample: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in sample.items()}


def test_a_dimension_of_one_size_is_named_once() -> None:
    runs = [_shapes(_sample(1, 8)), _shapes(_sample(2, 8))]
    (guard,) = always_one_size(SPECS, runs)
    assert guard.fact.params["sizes"] == (("T", "x", 8),)
    assert not always_one_size(SPECS, [*runs, _shapes(_sample(1, 9))])


def test_what_a_module_leaves_open_is_not_known() -> None:
    assert not always_one_size([TensorSpec("x", "float32", ("?", "?"))], [{"x": (3, 3)}])


def test_two_samples_are_one_batch_where_all_inputs_have_it() -> None:
    both = two_at_once(SPECS, _sample(1, 8), _sample(1, 8))
    assert both is not None and _shapes(both) == {"x": (2, 8, 4), "mask": (2, 8)}
    fixed = (SPECS[0], TensorSpec("mask", "float32", (1, "T")))
    assert two_at_once(fixed, _sample(1, 8), _sample(1, 8)) is None
    assert two_at_once(SPECS, _sample(1, 8), {}) is None
