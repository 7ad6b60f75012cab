"""Each guard speaks when it should, and is silent when it should be."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.judge.guards import (
    coverage_guard,
    degenerate_data,
    null_baseline,
    observer_or_chance,
    saturated,
    shuffled,
)
from twinnet.result import Coverage, PairResult, fact
from twinnet.site import Site

RNG = np.random.default_rng(0)
LIVELY = RNG.standard_normal(100).astype(np.float32)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(10, np.float32), "is 0 everywhere"),
        (np.full((2, 3), 7.0, np.float32), "is 7 everywhere"),
        (np.zeros(0, np.float32), "is empty"),
        (np.full(3, np.nan, np.float32), "holds no finite number"),
        (np.float32([0, 1] * 500 + [0.5]), "saturated: 99.9 % of it is either 0 or 1"),
        (LIVELY, ""),
        (np.float32(3.0), ""),
        (np.float32([0, 1]), ""),
        (np.arange(5), ""),
        (np.float32([np.nan, 1, 2]), ""),
    ],
)
def test_what_cannot_show_a_fault(array: np.ndarray, words: str) -> None:
    found = saturated(np.asarray(array))
    said = "" if found is None else str(found)
    assert words in said and bool(words) == bool(said)


def _output(name: str, status: str = "pass") -> PairResult:
    site = Site(name, role="output")
    return PairResult(site, site, status)  # type: ignore[arg-type]


def test_degenerate_outputs_weaken_only_if_all_are() -> None:
    flat = np.zeros(10, np.float32)
    both = degenerate_data([_output("a"), _output("b")], {"a": flat, "b": LIVELY}, 0, 5)
    assert [g.weakens for g in both] == [False] and "output a is 0 everywhere" in both[0].message
    assert [g.weakens for g in degenerate_data([_output("a")], {"a": flat}, 0, 5)] == [True]
    untested = degenerate_data([_output("a", "untested")], {"a": LIVELY}, 0, 5)
    assert untested[0].weakens and "as small as what rounding" in untested[0].message
    assert degenerate_data([_output("a")], {"a": LIVELY}, 0, 5) == []


def test_untested_inner_sites_are_counted() -> None:
    (guard,) = degenerate_data([_output("a")], {"a": LIVELY}, 3, 9)
    assert "3 of 9 inner sites are not tested" in guard.message and not guard.weakens


def test_null_baseline() -> None:
    first, other = {"y": LIVELY}, {"y": LIVELY[::-1].copy()}
    assert null_baseline(first, other, {"y": 1e-6}) == []
    assert null_baseline(first, other, {"y": 0.0}) == []
    (same,) = null_baseline(first, {"y": LIVELY.copy()}, {"y": 0.0})
    assert same.weakens and "agreement proves nothing" in same.message
    (close,) = null_baseline(first, {"y": LIVELY + np.float32(1e-3)}, {"y": 9e-4})
    assert close.weakens and "hardly tells them apart" in close.message


def test_another_input_of_the_same_kind() -> None:
    sample = {"state": np.zeros(500, np.float32), "x": np.arange(6, dtype=np.int64).reshape(2, 3)}
    changed = shuffled(sample)
    assert np.array_equal(changed["state"], sample["state"])
    assert sorted(changed["x"].ravel()) == [0, 1, 2, 3, 4, 5] and not np.array_equal(
        changed["x"], sample["x"]
    )
    assert shuffled({"x": np.ones(5, np.float32), "n": np.array(3)}) == {}
    two = shuffled({"x": np.float32([1, 2])})
    assert two["x"].tolist() == [2, 1]


def test_observer_effect() -> None:
    plain = {"y": LIVELY}
    assert observer_or_chance("twin", plain, plain, [LIVELY.copy()]) == ([], 0.0)
    (guard,), spread = observer_or_chance("twin", plain, plain, [LIVELY + np.float32(1e-3)])
    assert (
        guard.name == "observer effect" and "watching the twin changes its output by 0.001" in guard.message
    )
    assert spread == 0.0
    tiny = LIVELY.copy()
    tiny[0] = np.nextafter(tiny[0], np.float32(9))
    assert observer_or_chance("twin", plain, plain, [tiny])[0] == []  # one rounding is no effect


def test_chance_is_told_from_observation() -> None:
    plain, again = {"y": LIVELY}, {"y": LIVELY + np.float32(1e-3)}
    found, spread = observer_or_chance("twin", plain, again, [LIVELY + np.float32(5e-4)])
    assert [g.name for g in found] == ["determinism"] and spread == pytest.approx(1e-3, rel=1e-2)
    assert "added to what is allowed" in found[0].message
    found, spread = observer_or_chance("twin", plain, {"y": LIVELY[:5]}, [LIVELY])
    assert spread == float("inf")


def test_coverage() -> None:
    assert coverage_guard(Coverage(10, 10, 10, 10)) == []
    (note,) = coverage_guard(
        Coverage(10, 10, 10, 4, note=fact("coverage.not_judged", pairs=6, why=fact("born.zero")))
    )
    assert "could not be judged" in note.message and not note.weakens
    (nothing,) = coverage_guard(Coverage(10, 3, 10, 0))
    assert nothing.weakens and "nothing was judged" in nothing.message
