"""The attacks of the hidden-wrongs benchmark, once each, and a few mutants."""

from __future__ import annotations

from pathlib import Path

import benchmarks.hidden  # noqa: F401 (registers the attacks)
import pytest
from benchmarks.hidden.attack import ATTACKS, run_attack
from benchmarks.hidden.search import search


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_wrong_twin_does_not_pass_in_silence(name: str) -> None:
    told = run_attack(name, seed=11)
    assert not told.hidden, told.answer


@pytest.mark.slow
def test_nor_does_one_that_was_made_at_random(tmp_path: Path) -> None:
    told = list(search(1, 11, tmp_path))
    assert len(told) == 1
    assert [t for t in told if t.hidden] == []
