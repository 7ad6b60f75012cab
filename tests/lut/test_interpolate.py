"""Interpolation in torch: against its definition, any dimension, and its gradients."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.lut.interpolate import dense_rows, multilinear, simplex


def _by_cases(table: np.ndarray, point: list[int], units: int, nodes: int) -> np.ndarray:
    """The definition the other way round: find an order that sorts the fractions, by trying all."""
    axes = len(point)
    bins = [min(p // units, nodes - 2) for p in point]
    frac = [p - b * units for p, b in zip(point, bins)]
    order = next(o for o in permutations(range(axes)) if all(frac[i] >= frac[j] for i, j in pairwise(o)))
    edges = [units, *(frac[k] for k in order), 0]
    vertex, total = list(bins), 0
    for k in range(axes + 1):
        total = total + (edges[k] - edges[k + 1]) * table[tuple(vertex)].astype(np.int64)
        if k < axes:
            vertex[order[k]] += 1
    return total


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([(16, 17), (17, 16), (128, 3), (256, 2)])
)
def test_simplex_is_its_definition_in_any_dimension(axes, seed, grid):
    step, nodes = grid
    rng = np.random.default_rng(seed)
    nodes_here = nodes if nodes**axes < 10**5 else 3
    step = step if nodes_here == nodes else 128
    table = rng.integers(-127, 128, (nodes_here,) * axes + (2,))
    points = np.concatenate(
        [rng.integers(0, 256, (20, axes)), np.full((1, axes), 255), np.zeros((1, axes), int)]
    )
    rows = dense_rows(torch.from_numpy(table.reshape(-1, 2)).double(), nodes_here)
    found = simplex(torch.from_numpy(points).double(), step, nodes_here, rows)
    for point, numbers in zip(points.tolist(), found.numpy()):
        assert np.array_equal(numbers, _by_cases(table, point, step, nodes_here))


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_multilinear_is_the_tensor_product(axes):
    rng = np.random.default_rng(axes)
    table = rng.integers(-127, 128, (5,) * axes + (3,)).astype(np.float64)
    points = rng.integers(0, 256, (30, axes))
    rows = dense_rows(torch.from_numpy(table.reshape(-1, 3)), 5)
    found = multilinear(torch.from_numpy(points).double(), 64, 5, rows).numpy() / 64**axes
    for point, numbers in zip(points, found):
        value = table
        for v in point:
            k, f = divmod(int(v), 64)
            value = value[k] * (1 - f / 64) + value[k + 1] * (f / 64)
        assert np.allclose(numbers, value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("how", [simplex, multilinear])
def test_both_agree_on_nodes_and_on_linear_tables(how):
    ramp = torch.stack(torch.meshgrid(*[torch.arange(5.0, dtype=torch.float64)] * 3, indexing="ij"))
    table = (ramp * torch.tensor([1.0, 5.0, -3.0]).reshape(3, 1, 1, 1)).sum(0).reshape(-1, 1)
    points = torch.randint(0, 256, (50, 3)).double()
    over = 64 if how is simplex else 64**3
    found = how(points, 64, 5, dense_rows(table, 5))[:, 0] / over
    assert torch.allclose(
        found, (points / 64) @ torch.tensor([1.0, 5.0, -3.0], dtype=torch.float64), atol=1e-12
    )


@pytest.mark.parametrize("how", [simplex, multilinear])
def test_gradients_reach_entries_and_values(how):
    torch.manual_seed(0)
    table = torch.rand(5**3, 2, dtype=torch.float64, requires_grad=True)
    values = (torch.rand(4, 3, dtype=torch.float64) * 50 + 3).requires_grad_()
    run = lambda v, t: how(v, 64, 5, dense_rows(t, 5)) / (64 if how is simplex else 64**3)  # noqa: E731
    assert torch.autograd.gradcheck(run, (values, table))


def test_the_slip_changes_only_its_own_case():
    torch.manual_seed(0)
    table = torch.randint(-127, 128, (17**4, 1)).double()
    points = torch.randint(0, 256, (4000, 4)).double()
    rows = dense_rows(table, 17)
    right, wrong = simplex(points, 16, 17, rows), simplex(points, 16, 17, rows, "srlut-2021")
    a, b, c, d = (points % 16).unbind(-1)
    case = (c >= a) & (a > b) & (c > d) & (d > a)
    changed = (right != wrong)[:, 0]
    assert changed.any() and not (changed & ~case).any() and changed[case].float().mean() > 0.9
