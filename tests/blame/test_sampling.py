"""Grid sampling that reads beside the picture: what lies before and behind the tensor is anybody's guess."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from twinnet.blame import Problem, solve
from twinnet.layers import Layer

_BEFORE = 400
"""Numbers in memory before the picture, and as many behind it."""


def _by_hand(
    memory: np.ndarray, shape: tuple[int, int, int, int], grid: np.ndarray, corners: bool
) -> np.ndarray:
    """Bilinear sampling; the lower neighbour is checked against the beginning only, the upper one against the end."""
    count, channels, height, width = shape
    found = np.zeros((count, channels, *grid.shape[1:3]))

    def neighbours(at: float, size: int) -> list[tuple[int, float]]:
        place = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
        low = math.floor(place)
        share = place - low
        return [(low, 1 - share)] * (low >= 0) + [(low + 1, share)] * (low + 1 < size)

    for n, c, i, j in itertools.product(*map(range, found.shape)):
        x, y = map(float, grid[n, i, j])
        for (row, a), (column, b) in itertools.product(neighbours(y, height), neighbours(x, width)):
            found[n, c, i, j] += (
                a * b * memory[_BEFORE + ((n * channels + c) * height + row) * width + column]
            )
    return found


def _problem(memory: np.ndarray, reach: float, corners: bool) -> Problem:
    shape = (2, 3, 6, 7)
    x = memory[_BEFORE:-_BEFORE].reshape(shape)
    grid = np.random.default_rng(5).uniform(-reach, reach, (2, 5, 4, 2)).astype(np.float32)
    layer = Layer("grid_sample", ("x", "grid"), ("y",), {"align_corners": corners})
    inputs = {"x": torch.from_numpy(x), "grid": torch.from_numpy(grid)}
    got = torch.from_numpy(_by_hand(memory, shape, grid, corners).astype(np.float32))
    return Problem((layer,), {}, inputs, "y", got)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("around", [0.0, 1.0, 100.0])
def test_named_whatever_lies_around_the_tensor(corners: bool, around: float) -> None:
    memory = np.random.default_rng(4).standard_normal(2 * _BEFORE + 252).astype(np.float32)
    memory[:_BEFORE] *= around
    memory[-_BEFORE:] *= around
    cause = solve(_problem(memory, 2.0, corners)).cause
    assert cause is not None and cause.fact.code == "resize.unchecked", cause


def test_other_noise_at_the_same_places_is_not_explained() -> None:
    memory = np.random.default_rng(4).standard_normal(2 * _BEFORE + 252).astype(np.float32)
    problem = _problem(memory, 2.0, True)
    noise = torch.where(problem.got != problem.expected, torch.randn(problem.got.shape), 0.0)
    found = solve(
        Problem(problem.layers, {}, problem.inputs, "y", (problem.expected + noise).to(torch.float32))
    )
    assert found.cause is None, found.cause
