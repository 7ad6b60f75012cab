"""A finished run judged again: as a fresh check under the same tolerance would have judged it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import twinnet
from twinnet.errors import UsageError
from twinnet.judge.again import against_baseline, judge_again
from twinnet.judge.tolerance import Rule, Tolerance, Tolerances
from twinnet.report.files import write_run
from twinnet.result import Result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(12, 16)
        self.second = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(torch.tanh(self.first(x))), -1)


NET = Net().eval()
SAMPLES = [
    np.random.default_rng(i).standard_normal((3, 12)).astype(np.float32) * (1 + 3 * i) for i in range(3)
]
A, B = (m.weight.detach().numpy() for m in (NET.first, NET.second))
C, D = (m.bias.detach().numpy() for m in (NET.first, NET.second))


def _twin(first: float = 0.0, second: float = 0.0) -> Any:
    """The network by hand, with an error at one or both linear layers."""

    def run(x: np.ndarray) -> dict[str, np.ndarray]:
        a = x @ A.T + C
        a[0, 0] += first
        h = np.tanh(a)
        b = h @ B.T + D
        b[1, 1] += second
        e = np.exp(b - b.max(-1, keepdims=True))
        return {"output": e / e.sum(-1, keepdims=True), "first": a, "second": b}

    return run


def _check(twin: Any, **options: Any) -> Result:
    found = twinnet.check(NET, [{"x": s} for s in SAMPLES], twin, **options)
    assert isinstance(found, Result)
    return found


def _essence(result: Result) -> list[tuple[Any, ...]]:
    pairs = [(p.site.tensor, p.status, p.reason, p.rule) for p in result.pairs]
    outputs = [(p.site.tensor, p.status, p.reason) for p in result.outputs]
    findings = [(f.site.tensor, f.ratio, f.born) for f in result.findings]
    return [(result.verdict, result.tolerance, result.coverage.judged), pairs, outputs, findings]  # type: ignore[list-item]


TOLERANCES: list[dict[str, float]] = [
    {},
    {"atol": 1e-3},
    {"atol": 1e-12},
    {"rtol": 1e-7},
    {"rtol": 1e-3, "atol": 1e-6},
    {"ulp": 3},
    {"snr": 60.0},
    {"psnr": 200.0},
    {"cosine": 0.999999},
]


@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_again_equals_a_fresh_check(error: float) -> None:
    runs = [(limits, _check(_twin(second=error), tolerance=Tolerance(**limits))) for limits in TOLERANCES]
    for _, run in (runs[0], runs[1], runs[5]):
        for limits, fresh in runs:
            again = judge_again(run, Tolerances.of(Tolerance(**limits)))
            assert _essence(again) == _essence(fresh), limits


def test_automatic_again_changes_nothing() -> None:
    run = _check(_twin(first=1e-2))
    assert run.verdict == "FAIL"
    assert judge_again(run, Tolerances()) == replace(run, known=())


def test_rules_for_inner_sites(tmp_path: Path) -> None:
    rules = tmp_path / "tolerance.toml"
    rules.write_text('[[rule]]\nmodule = "first"\natol = 1e-2\n[[rule]]\nmodule = "second"\natol = 1e-4\n')
    fresh = _check(_twin(first=5e-3, second=1e-3), tolerance=str(rules))
    assert [p.site.module for p in fresh.pairs if p.status == "fail"] == ["second"]
    automatic = _check(_twin(first=5e-3, second=1e-3))
    assert [f.site.module for f in automatic.findings] == ["first", "second"]
    stated = Tolerances(
        (Rule(Tolerance(atol=1e-2), module="first"), Rule(Tolerance(atol=1e-4), module="second"))
    )
    assert _essence(judge_again(automatic, stated)) == _essence(fresh)


def test_a_run_that_is_an_error_cannot_be_judged() -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        raise ValueError("no licence")

    run = _check(broken)
    assert run.verdict == "ERROR"
    with pytest.raises(UsageError, match="cannot be judged again"):
        judge_again(run, Tolerances())


def test_saved_and_loaded_it_judges_alike(tmp_path: Path) -> None:
    run = _check(_twin(second=1e-3), tolerance=twinnet.Tolerance(atol=1.0))
    assert run.verdict == "PASS"
    write_run(run, tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, Result)
    for limits in TOLERANCES:
        stated = Tolerances.of(Tolerance(**limits))
        assert _essence(judge_again(loaded, stated)) == _essence(judge_again(run, stated))


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """A run with a known failure in `first`."""
    write_run(_check(_twin(first=1e-2)), tmp_path / "before")
    return tmp_path / "before"


def test_a_known_failure_passes(baseline: Path) -> None:
    now = _check(_twin(first=1e-2), baseline=str(baseline))
    assert now.verdict == "PASS" and now.known and not now.findings
    assert against_baseline(_check(_twin(first=1e-2)), baseline).verdict == "PASS"


def test_a_failure_that_grew_is_new(baseline: Path) -> None:
    now = _check(_twin(first=2e-2), baseline=str(baseline))
    assert now.verdict == "FAIL" and [f.site.module for f in now.findings] == ["first"]


def test_a_failure_elsewhere_is_new(baseline: Path) -> None:
    now = _check(_twin(first=1e-2, second=1e-2), baseline=str(baseline))
    assert now.verdict == "FAIL" and [f.site.module for f in now.findings] == ["second"]
    assert len(now.known) == 1


def test_a_clean_run_needs_no_baseline(baseline: Path) -> None:
    assert _check(_twin(), baseline=str(baseline)).verdict == "PASS"


def test_a_missing_baseline_is_said_before_anything_runs(tmp_path: Path) -> None:
    def never(x: np.ndarray) -> np.ndarray:
        raise AssertionError("must not run")

    with pytest.raises(UsageError, match="no result"):
        _check(never, baseline=str(tmp_path / "none"))
