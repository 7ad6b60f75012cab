"""What no family can name stays unknown: a wrong cause is worse than none."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.blame.cases import CONV, CONVED, NORM, NORMED, ROWS, B, W, X, _bn, changed, one, seeded
from twinnet.blame import Problem, solve

_NOISE = {
    "noise on everything": lambda y: y + seeded(*y.shape, seed=40, scale=0.01),
    "noise in one channel": lambda y: changed(
        y, (slice(None), 3), lambda v: v + seeded(*v.shape, seed=41, scale=0.1)
    ),
    "a stain": lambda y: changed(
        y, (0, 2, slice(3, 6), slice(4, 8)), lambda v: v + seeded(*v.shape, seed=42)
    ),
    "one element": lambda y: changed(y, (0, 1, 2, 3), lambda v: v + 0.777),
    "a ramp across the picture": lambda y: y + torch.linspace(0, 0.1, y.shape[-1]),
    "a wave": lambda y: y + 0.01 * torch.sin(3 * y),
    "a cube": lambda y: y + 0.01 * y**3,
    "two faults at once": lambda y: changed(F.relu(y) * 1.3, (slice(None), 1), lambda v: v + 0.3),
}


@pytest.mark.parametrize("name", _NOISE)
@pytest.mark.parametrize("kind", ["conv", "batch_norm"])
def test_a_fault_outside_all_families_is_unknown(name: str, kind: str) -> None:
    if kind == "conv":
        problem = Problem((CONV,), CONVED, {"x": X}, "y", _NOISE[name](F.conv2d(X, W, B, padding=1)))
    else:
        problem = Problem((NORM,), NORMED, {"x": X}, "y", _NOISE[name](_bn(X)))
    found = solve(problem)
    assert found.cause is None, found.cause
    assert "differ" in str(found.reason)


def test_the_evidence_says_where() -> None:
    got = changed(
        F.conv2d(X, W, B, padding=1), (slice(None), 3), lambda v: v + seeded(*v.shape, seed=41).abs()
    )
    reason = solve(Problem((CONV,), CONVED, {"x": X}, "y", got)).reason
    reason = str(reason)
    assert "only in channel 3 of 8" in reason
    assert "all too large" in reason


def test_two_explanations_that_fit_alike_are_both_said_and_none_is_believed() -> None:
    # A tensor of ones: adding one and doubling are the same.
    ones = torch.ones(4, 16)
    found = solve(Problem(one("identity"), {}, {"x": ones}, "y", ones * 2))
    assert found.cause is None
    assert found.reason is not None and found.reason.code == "either"


def test_a_pair_that_agrees_has_no_cause() -> None:
    got = F.conv2d(X, W, B, padding=1)
    assert solve(Problem((CONV,), CONVED, {"x": X}, "y", got)).cause is None
    assert solve(Problem(one("gelu"), {}, {"x": ROWS}, "y", F.gelu(ROWS))).cause is None


def test_another_shape_is_explained_or_left_open() -> None:
    strided = solve(Problem((CONV,), CONVED, {"x": X}, "y", F.conv2d(X, W, B, padding=1, stride=2)))
    assert strided.cause is not None and strided.cause.kind == "stride"
    valid = solve(Problem((CONV,), CONVED, {"x": X}, "y", F.conv2d(X, W, B)))
    assert valid.cause is not None and valid.cause.kind == "padding"
    cropped = solve(Problem((CONV,), CONVED, {"x": X}, "y", seeded(1, 8, 5, 5)))
    assert cropped.cause is None
    assert "shape 1x8x5x5" in str(cropped.reason)
