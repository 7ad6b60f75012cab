"""What no family can name stays unknown: a wrong cause is worse than none."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.blame.cases import CONV, CONVED, NORM, NORMED, ROWS, B, W, X, _bn, changed, one, seeded
from twinnet.blame import Problem, solve
from twinnet.blame.search import proposals
from twinnet.layers import Layer

LINEAR = Layer("linear", ("x", "w", "b"), ("y",))
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


@pytest.mark.parametrize("instead", [0.0, -3.0, 0.5])
def test_a_result_that_is_one_number_everywhere_has_no_cause(instead: float) -> None:
    """A ReLU, a factor of 0 and a bound all end there, and so do two faults together."""
    below = F.conv2d(X, W, B, padding=1) - 100
    constants = {**CONVED, "shift": torch.tensor(-100.0)}
    layers = (CONV, Layer("add", ("y", "shift"), ("z",)))
    found = solve(Problem(layers, constants, {"x": X}, "z", torch.full_like(below, instead)))
    assert found.cause is None
    assert f"the twin's result is {instead:g} everywhere" in str(found.reason)


@pytest.mark.parametrize("what", ["weight", "bias"])
def test_at_one_position_no_weight_is_named(what: str) -> None:
    """Any weight of the channel explains its one number, and so does the bias."""
    x, w, b = seeded(1, 16), seeded(16, 16, seed=1), seeded(16, seed=2)
    got = (
        F.linear(x, changed(w, (3, 5), 0.3371), b)
        if what == "weight"
        else F.linear(x, w, changed(b, 3, 1.3371))
    )
    assert solve(Problem((LINEAR,), {"w": w, "b": b}, {"x": x}, "y", got)).cause is None


@pytest.mark.parametrize("fault", ["weights", "a wave"])
def test_other_weights_are_named_only_where_positions_are_left_over_to_test_them(fault: str) -> None:
    """16 weights turn 16 rows into anything, and rows that are repeated say nothing new."""
    w, b = seeded(16, 16, seed=1), seeded(16, seed=2)
    few = seeded(16, 16)

    def named(x: torch.Tensor) -> bool:
        made = F.linear(x, w, b)
        got = (
            F.linear(x, w + seeded(16, 16, seed=3, scale=0.05), b)
            if fault == "weights"
            else made + 0.02 * made.sin()
        )
        return solve(Problem((LINEAR,), {"w": w, "b": b}, {"x": x}, "y", got)).cause is not None

    assert not named(few)
    assert not named(few.repeat(4, 1))
    assert named(seeded(20, 16)) is (fault == "weights")


def test_activations_that_are_one_function_are_proposed_as_one_kind_of_cause() -> None:
    """Else each would cast doubt on the other, on whatever data."""
    x = seeded(64, 16, scale=3.0)
    for kind, attrs in (
        ("leaky_relu", {"alpha": 0.1}),
        ("swish", {}),
        ("hard_sigmoid", {}),
        ("elu", {}),
        ("clip", {"min": 0.0, "max": 6.0}),
    ):
        problem = Problem(one(kind, **attrs), {}, {"x": x}, "y", seeded(64, 16, seed=1))
        found: dict[tuple[float, ...], str] = {}
        for candidate in proposals(problem):
            made = problem.run(candidate.change(problem)) if candidate.cost <= 1.25 else None
            if made is not None:
                values = tuple(made.reshape(-1).tolist())
                assert found.setdefault(values, candidate.kind) == candidate.kind, (kind, candidate.fact)
