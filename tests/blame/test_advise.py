"""Advice: which segments to keep in float, seen by running the twin that way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import twinnet
from tests.narrow import Files
from twinnet.blame.advise import Tried, search
from twinnet.cli.main import app
from twinnet.result import Advice, Difference, Result


def _advice(network: object, image: torch.Tensor, twin: Any, **asked: Any) -> Advice:
    result = twinnet.check(network, image, twin, advise=twinnet.Advise(**asked))
    assert isinstance(result, Result) and result.advice is not None
    return result.advice


@pytest.mark.parametrize("twin", ["torch?dtype=float16", "torch?dtype=bfloat16", "half", "int8"])
def test_more_in_float_is_nearer_and_was_run(narrow: Files, twin: str) -> None:
    spec = {"half": str(narrow.half), "int8": str(narrow.int8)}.get(twin, twin)
    advice = _advice(narrow.module, narrow.image, spec)
    assert (advice.how, advice.samples) == ("run", 1)
    assert advice.steps[0].kept == 0 and [s.kept for s in advice.steps[1:3]] == [1, 2]
    assert 0 < advice.best <= 6
    assert advice.chosen.snr > advice.steps[0].snr + 1
    assert len(advice.chosen.tensors) == len(advice.chosen.places) == advice.best


@pytest.mark.parametrize("network", ["module", "file"])
def test_everything_in_float_is_the_network(narrow: Files, network: str) -> None:
    subject = narrow.module if network == "module" else str(narrow.network)
    advice = _advice(subject, narrow.image, f"onnxruntime?opt=off:{narrow.int8}", target=115.0)
    # Weights are the network's own again, also where a norm was folded into them.
    assert advice.reached and advice.chosen.snr > 115
    assert advice.steps[0].snr < 60


def test_the_target_is_reached_with_as_few_as_possible(narrow: Files) -> None:
    plain = _advice(narrow.module, narrow.image, str(narrow.int8))
    goal = plain.steps[0].snr + 3
    advice = _advice(narrow.module, narrow.image, str(narrow.int8), target=goal)
    assert advice.reached and advice.chosen.snr >= goal
    assert all(s.snr < goal for s in advice.steps if s.kept < advice.best)
    never = _advice(narrow.module, narrow.image, "torch?dtype=bfloat16", target=500.0)
    assert not never.reached


def test_the_improved_file_is_what_was_promised(narrow: Files, tmp_path: Path) -> None:
    out = tmp_path / "new" / "better.onnx"
    advice = _advice(narrow.module, narrow.image, str(narrow.int8), out=str(out))
    assert advice.file == str(out) and [f.name for f in out.parent.iterdir()] == ["better.onnx"]
    onnx.checker.check_model(onnx.load(out))
    before, after = (twinnet.check(narrow.module, narrow.image, str(file)) for file in (narrow.int8, out))
    assert isinstance(before, Result) and isinstance(after, Result)
    assert (after.verdict, after.findings) == ("PASS", ()), repr(after)
    assert after.outputs[0].difference.snr == pytest.approx(advice.chosen.snr, abs=0.05)
    assert after.outputs[0].difference.snr > before.outputs[0].difference.snr + 1


def _rounding(module: nn.Module) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """A twin nobody can look into: tensors rounded to float16, by hand."""

    def run(image: np.ndarray) -> dict[str, np.ndarray]:
        def half(t: torch.Tensor) -> torch.Tensor:
            return t.half().float()

        with torch.no_grad():
            first = half(module.get_submodule("0")(torch.from_numpy(image)))
            second = half(module.get_submodule("1")(first))
            third = half(module.get_submodule("2")(second))
        return {"output": third.numpy(), "0": first.numpy(), "1": second.numpy()}

    return run


def test_a_twin_that_cannot_be_changed_is_simulated_and_that_is_said() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8)).eval()
    image = torch.randn(4, 16)
    run = _rounding(module)
    advice = _advice(module, image, run, target=80.0)
    assert advice.how == "simulated" and "callable" in advice.note
    # With nothing kept it is the twin itself.
    with torch.no_grad():
        ours = module(image).double()
    off = torch.from_numpy(run(image.numpy())["output"]).double() - ours
    snr = 10 * torch.log10(ours.square().sum() / off.square().sum())
    assert advice.steps[0].snr == pytest.approx(float(snr), abs=0.1)
    assert advice.reached and advice.chosen.kept >= 1
    with pytest.raises(twinnet.UsageError, match="cannot be written"):
        twinnet.check(module, image, run, advise=twinnet.Advise(out="x.onnx"))


def test_without_gain_the_search_ends() -> None:
    tried: list[int] = []

    def attempt(kept: Sequence[str]) -> Tried:
        tried.append(len(kept))
        return Tried([Difference(snr=30.0)])

    steps, best = search([f"t{i}" for i in range(100)], {}, attempt)
    assert best == 0 and tried == [0, 1, 2] and len(steps) == 3


def test_on_the_command_line(narrow: Files, tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", narrow.image.numpy())
    run = tmp_path / "run"
    better = tmp_path / "better.onnx"
    said = CliRunner().invoke(
        app,
        ["check", str(narrow.network), "--twin", str(narrow.int8), "--inputs", str(tmp_path / "image.npy"),
         "--advise-out", str(better), "--out", str(run)],
    )  # fmt: skip
    assert said.exit_code == 0, said.output
    assert "advise" in said.output and "in float: SNR" in said.output and better.exists()
    stored = json.loads((run / "result.json").read_text())["advice"]
    assert stored["how"] == "run" and stored["file"] == str(better)
    again = Result.load(run)
    assert isinstance(again, Result) and again.advice is not None and again.advice.best == stored["best"]
    assert "Advice" in (run / "report.html").read_text()
