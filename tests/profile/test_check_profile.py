"""Accuracy and time together: `check --profile`, and advice with its price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import twinnet
from tests.profile.nets import steps
from twinnet.cli.main import app
from twinnet.profile import load_profile
from twinnet.report.profiles import choice_text
from twinnet.result import Result, ResultSet


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultSet, Path]:
    out = tmp_path_factory.mktemp("runs") / "both"
    net, image = steps()
    found = twinnet.check(
        net, image, "onnxruntime,onnx-reference", out=out, profile=True, limits=twinnet.Limits(threads=1)
    )
    assert isinstance(found, ResultSet)
    return found, out


def test_the_table_has_a_line_for_each_twin(both: tuple[ResultSet, Path]) -> None:
    head, first, second, problem, *_ = choice_text(both[0]).splitlines()
    assert head.split() == [
        "twin",
        "verdict",
        "error/floor",
        "time",
        "8",
        "of",
        "10",
        "runs",
        "memory",
        "size",
    ]
    assert (
        first.startswith("onnxruntime")
        and "PASS" in first
        and "kB" in first
        and ("us" in first or "ms" in first)
    )
    assert second.startswith("onnx-reference") and "PASS" in second
    assert problem == "onnx-reference: onnx-reference does not measure times per layer"
    costs = [one.cost for one in both[0].results]
    assert costs[0] and costs[1] and costs[1].memory and costs[1].memory == costs[0].memory


def test_the_table_says_that_its_times_are_too_long(both: tuple[ResultSet, Path]) -> None:
    first = both[0].results[0]
    assert first.cost is not None and first.cost.seconds and first.cost.cpu
    waited = replace(first, cost=replace(first.cost, cpu=first.cost.seconds / 2))
    assert choice_text(waited).endswith("busy: other work runs here, and times are too long")
    assert "busy" not in choice_text(replace(first, cost=replace(first.cost, cpu=first.cost.seconds)))


def test_it_can_be_seen_again(both: tuple[ResultSet, Path]) -> None:
    done = CliRunner().invoke(app, ["show", str(both[1])])
    assert done.exit_code == 0 and done.output.rstrip().endswith(choice_text(both[0]))


def test_the_run_folder_holds_the_profile(both: tuple[ResultSet, Path]) -> None:
    found, out = both
    profile = load_profile(out / "onnxruntime")
    cost = found.results[0].cost
    assert cost is not None and cost.seconds == profile.bare.p50 and cost.size == profile.size
    assert not (out / "onnx-reference" / "profile").exists()
    again = Result.load(out / "onnxruntime")
    assert isinstance(again, Result) and again.cost == cost


def test_advice_says_what_float_costs() -> None:
    net, image = steps()
    found = twinnet.check(net, image, "torch?dtype=bfloat16", advise=twinnet.Advise(), profile=True)
    assert isinstance(found, Result) and found.advice is not None
    assert all(step.seconds for step in found.advice.steps)
    if found.advice.best:
        assert "x as long" in repr(found)
    plain = twinnet.check(net, torch.rand(1, 16, 16, 16), "torch?dtype=bfloat16", advise=twinnet.Advise())
    assert isinstance(plain, Result) and plain.advice is not None
    assert not any(step.seconds for step in plain.advice.steps)


def test_the_inspector_shows_the_same_times(both: tuple[ResultSet, Path]) -> None:
    run = both[1] / "onnxruntime"
    profile = load_profile(run)
    inspector = twinnet.Inspector(run)
    assert [b.name for b in inspector.event_blocks] == ["network", "twin", "profile"]
    events = inspector.event_blocks[-1].events
    assert [e.perf_data.p50 for e in events if e.perf_data] == pytest.approx(
        [1e3 * r.p50 for r in profile.rows]
    )
    assert [(e.module, e.source) for e in events] == [(r.module, r.source) for r in profile.rows]
    inside = [sum(r.seconds) / len(r.seconds) for r in profile.rows if r.module.startswith("blocks.2")]
    assert inspector.find_total_for_module("blocks.2") == pytest.approx(1e3 * sum(inside))
    alone = twinnet.Inspector(run / "profile")
    assert alone.event_blocks == inspector.event_blocks[-1:] and not alone.missing
    assert "times (check --profile measures them)" in twinnet.Inspector(both[1] / "onnx-reference").missing
