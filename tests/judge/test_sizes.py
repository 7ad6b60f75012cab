"""How far a tensor is from what it should hold: the worst place in floor units, and NaN and Inf as masks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from twinnet.judge.sizes import Sizes, class_of, nonfinite
from twinnet.pairing import Pair
from twinnet.result import fact
from twinnet.site import Site

UNIT = 2.0**-24
PAIR = Pair(Site("y"), Site("y"), "cut")


def _plain(got: torch.Tensor, expected: torch.Tensor, error: torch.Tensor) -> tuple[float, float, float]:
    off = (got.double() - expected).abs()
    floor = expected.abs() * UNIT + 2.0**-126 + error.double()
    at = int((off / floor).argmax())
    return float((off / floor)[at]), float(off[at]), float(floor[at])


@pytest.mark.parametrize("count", [1, 5, 100_003])
def test_the_worst_place_is_found_in_whatever_block_it_lies(count: int) -> None:
    random = torch.Generator().manual_seed(count)
    expected = torch.randn(count, generator=random, dtype=torch.float64)
    error = torch.rand(count, generator=random) * 1e-6
    got = expected.float()
    got[count * 2 // 3] += 0.5
    sizes = Sizes(got, expected, error, UNIT)
    assert (sizes.ratio, sizes.born, sizes.floor) == pytest.approx(_plain(got, expected, error), rel=1e-12)
    assert sizes.finite


def test_numbers_are_judged_beside_places_that_are_none() -> None:
    expected = torch.tensor([1.0, math.nan, 2.0, math.inf], dtype=torch.float64)
    got = torch.tensor([1.0, math.nan, 2.5, math.inf])
    sizes = Sizes(got, expected, None, UNIT)
    assert not sizes.finite and sizes.born == 0.5
    assert nonfinite(expected, got, PAIR, {}) is None


def test_what_is_no_number_must_stand_in_the_same_places() -> None:
    expected = torch.tensor([1.0, math.nan, math.inf], dtype=torch.float64)
    assert nonfinite(expected, torch.tensor([1.0, 0.0, math.inf]), PAIR, {}) == fact(
        "nonfinite.nan", network=1, twin=0
    )
    moved = torch.tensor([math.nan, 1.0, math.inf])
    assert nonfinite(expected, moved, PAIR, {}) == fact("nonfinite.places", count=2)
    # the network's own run overflows in the same place
    own = np.array([math.nan, 1.0, math.inf], np.float32)
    assert nonfinite(expected, moved, PAIR, {"y": own}) is None


def test_what_the_twin_s_format_cannot_hold_is_no_fault() -> None:
    expected = torch.tensor([1e5], dtype=torch.float64)
    assert nonfinite(expected, torch.tensor([math.inf], dtype=torch.float16), PAIR, {}) is None
    assert nonfinite(expected, torch.tensor([math.inf], dtype=torch.float32), PAIR, {}) is not None


def test_classes_of_numbers() -> None:
    kinds = {torch.float16: "float", torch.int8: "integer", torch.bool: "bool", torch.complex64: "complex"}
    assert {d: class_of(torch.zeros(1, dtype=d)) for d in kinds} == kinds
