"""From the twin's form to the network's and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.pairing.transforms import IDENTITY, candidates


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
