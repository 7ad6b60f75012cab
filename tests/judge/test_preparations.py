"""Every way to prepare a picture is recognised when both sides show it, and none where nothing was done."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.judge.inputs import input_cause
from twinnet.judge.preparations import preparations
from twinnet.result import Fact, fact

IMAGE = np.random.default_rng(3).random((2, 3, 10, 14), dtype=np.float32)
WAYS = [way for way, _ in preparations(IMAGE)]
IMAGENET = fact("prepared.normalised", by="ImageNet", order="RGB", done=True)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_each_way_is_named(way: Fact) -> None:
    made = dict(preparations(IMAGE))[way].astype(np.float32)
    cause, reason = input_cause("image", IMAGE, made)
    assert cause is not None, reason
    assert cause.sentence == f"the twin takes input image {way}"


def test_ways_differ_from_each_other_and_from_nothing() -> None:
    made = [IMAGE.astype(np.float64), *(m for _, m in preparations(IMAGE))]
    assert len(WAYS) == len(set(map(str, WAYS))) >= 15
    for i, one in enumerate(made):
        assert all(np.abs(one - other).max() > 1e-4 for other in made[:i])


def test_whole_numbers_take_the_statistics_of_whole_numbers() -> None:
    whole = np.rint(255 * IMAGE)
    fit = dict(preparations(whole))[IMAGENET]
    small = dict(preparations(whole / 255))[IMAGENET]
    np.testing.assert_allclose(fit, small, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (5,), (2, 7), (1, 4, 6, 6)])
def test_other_inputs_are_left_alone(shape: tuple[int, ...]) -> None:
    for _, made in preparations(np.zeros(shape, np.float32)):
        assert made.shape == shape
