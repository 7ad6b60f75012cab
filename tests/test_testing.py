"""One assertion: passes, fails with the answer, or could not run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinnet.testing import CouldNotRun, assert_same


@pytest.fixture
def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def test_the_same_passes(net: torch.nn.Module) -> None:
    assert assert_same(net, X, "torch?dtype=float64").verdict == "PASS"


def test_a_difference_is_an_assertion_with_the_answer(net: torch.nn.Module) -> None:
    with pytest.raises(AssertionError, match="output differs by"):
        assert_same(net, X, lambda x: net(torch.as_tensor(x)).detach().numpy() * 1.01)


def test_what_could_not_run_is_no_assertion(net: torch.nn.Module) -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        raise RuntimeError("the board does not answer")

    with pytest.raises(CouldNotRun, match="the board does not answer") as caught:
        assert_same(net, X, broken)
    assert caught.value.stage.startswith("run")


def test_strict_wants_data_that_could_show_a_fault(net: torch.nn.Module) -> None:
    dead = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
    with torch.no_grad():
        dead[0].bias.fill_(-100)
    assert assert_same(dead, X, "torch?dtype=float64").verdict == "PASS"
    with pytest.raises(AssertionError, match="could not have shown"):
        assert_same(dead, X, "torch?dtype=float64", strict=True)
