"""From the twin's form to the network's and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.pairing.transforms import IDENTITY, Transform, candidates, from_pairs


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.randoms())
def test_there_and_back(shape: list[int], random: object) -> None:
    twin = list(shape)
    random.shuffle(twin)  # type: ignore[attr-defined]
    array = np.arange(np.prod(shape)).reshape(twin)
    for transform in candidates(shape, twin):
        ours = transform.to_network(array)
        assert ours.shape == tuple(shape)
        assert np.array_equal(transform.to_twin(ours), array)


@pytest.mark.parametrize(
    ("network", "twin", "words"),
    [
        ((1, 3, 4, 5), (1, 3, 4, 5), ""),
        ((1, 3, 4, 5), (1, 4, 5, 3), "permute 0,3,1,2"),
        ((2, 7), (7, 2), "permute 1,0"),
        ((1, 8), (8,), "reshape to 1x8"),
        ((2, 8, 1, 1), (2, 8), "reshape to 2x8x1x1"),
    ],
)
def test_the_likely_one_comes_first(network: tuple[int, ...], twin: tuple[int, ...], words: str) -> None:
    assert str(candidates(network, twin)[0]) == words


def test_what_does_not_fit_has_no_transform() -> None:
    assert candidates((2, 3), (2, 4)) == ()
    assert candidates((4, 6), (8, 3)) == ()
    assert candidates((3, 4), (3, 4)) == (IDENTITY,)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_complex_numbers_from_pairs_and_back(dtype: str) -> None:
    twin = np.arange(24, dtype=dtype).reshape(3, 4, 2)
    ours = (twin[..., 0] + 1j * twin[..., 1]).astype("complex128" if dtype == "float64" else "complex64")
    transform = from_pairs(ours, twin)
    assert transform == Transform(pairs=True) and not transform.is_identity
    assert transform.to_network(twin).dtype == ours.dtype and np.array_equal(transform.to_network(twin), ours)
    assert np.array_equal(transform.to_twin(ours), twin)
    assert np.array_equal(transform.to_network(twin == 3), ours.imag == 3), "marks of elements"


def test_pairs_in_another_layout() -> None:
    twin = np.arange(24.0).reshape(4, 3, 1, 2)
    ours = (twin[..., 0] + 1j * twin[..., 1]).reshape(4, 3)
    transform = from_pairs(ours, twin)
    assert transform is not None and str(transform) == "complex from pairs, reshape to 4x3"
    assert np.array_equal(transform.to_network(twin), ours) and np.array_equal(transform.to_twin(ours), twin)


@pytest.mark.parametrize(
    ("network", "twin"),
    [
        (np.zeros((2, 2), "complex64"), np.zeros((2, 3), "float32")),
        (np.zeros((2, 2), "complex64"), np.zeros((2, 2, 2), "int32")),
        (np.zeros((2, 2), "complex64"), np.zeros((2, 2), "complex64")),
        (np.zeros((2, 2), "float32"), np.zeros((2, 2, 2), "float32")),
        (np.zeros((), "complex64"), np.zeros((), "float32")),
    ],
)
def test_what_is_no_pair_of_real_numbers(network: np.ndarray, twin: np.ndarray) -> None:
    assert from_pairs(network, twin) is None
