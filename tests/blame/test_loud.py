"""A mistake in a cause shows; only what does not apply is passed over."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.blame.cases import CONV, CONVED, B, W, X, one, seeded
from twinnet.blame import Problem, solve
from twinnet.blame.causes import padding, precision, weights
from twinnet.blame.problem import ByCause, NotApplicable, Patch
from twinnet.layers.graph import Layer


@pytest.fixture
def problem() -> Problem:
    """A convolution that pads otherwise."""
    got = F.conv2d(F.pad(X, (1,) * 4, mode="reflect"), W, B)
    return Problem((CONV,), CONVED, {"x": X}, "y", got)


def _raising(error: BaseException) -> Any:
    def helper(*_: Any, **__: Any) -> Any:
        raise error

    return helper


@pytest.mark.parametrize("error", [AttributeError("typo"), KeyError("typo"), TypeError("typo")], ids=repr)
@pytest.mark.parametrize(
    ("module", "helper"),
    [(padding, "by_axis"), (padding, "_padded"), (weights, "_gradients")],
    ids=["while proposing", "while patching", "while solving"],
)
def test_a_typo_in_a_cause_shows(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, module: Any, helper: str, error: Exception
) -> None:
    assert solve(problem).cause is not None
    monkeypatch.setattr(module, helper, _raising(error))
    with pytest.raises(type(error)):
        solve(problem)


@pytest.mark.parametrize("error", [AttributeError("typo"), KeyError("typo"), TypeError("typo")], ids=repr)
def test_a_typo_in_what_a_cause_computes_shows(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setitem(precision.FORMATS, "bfloat16", _raising(error))
    off = Problem((CONV,), CONVED, {"x": X}, "y", F.conv2d(X, W, B, padding=1) + seeded(1, 8, 12, 14, seed=5))
    with pytest.raises(type(error)):
        solve(off)


def test_what_does_not_apply_is_passed_over(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_gradients", _raising(NotApplicable("not here")))
    found = solve(problem).cause
    assert found is not None and found.kind == "padding"
    monkeypatch.setattr(padding, "_padded", _raising(NotApplicable("not here")))
    assert solve(problem).cause is None


def test_what_torch_cannot_compute_is_no_hypothesis(problem: Problem) -> None:
    assert problem.run(problem.change(0, pads=(-9, -9, -9, -9))) is None
    assert problem.run(problem.change(0, strides="two")) is None
    assert problem.run(problem.change(0, inputs=("x", "absent"))) is None
    matrix = Problem(one("matmul", "x", "m"), {"m": seeded(5, 3)}, {"x": seeded(4, 5)}, "y", seeded(4, 3))
    assert matrix.run(matrix.give(0, 1, seeded(7, 3))) is None


def test_a_step_of_a_cause_is_code_of_ours_and_another_s_operator_is_not(problem: Problem) -> None:
    def broken(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.no_such_thing(),)  # type: ignore[attr-defined]

    def patch(run: Any) -> Patch:
        return Patch(0, 1, (Layer("opaque", ("x",), ("y",), {"run": run}),))

    assert problem.run(patch(broken)) is None
    with pytest.raises(AttributeError):
        problem.run(patch(ByCause(broken)))
