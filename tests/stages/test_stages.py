"""A fault planted at each stage is named with that stage; a network without one passes them all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from typer.testing import CliRunner

import twinnet
from tests.onnx_edit import constant, node_of, save, scale_channel
from tests.stages.nets import LooksAtTheData, OtherWhenExported, plain, plain_input
from twinnet.checking.options import Options
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.result import Result, StagedResult
from twinnet.stages import Route, stages_with


@pytest.fixture(scope="module")
def files(shared_folder: Path) -> Path:
    """network.onnx, optimised.onnx and int8.onnx of the plain network."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    folder = shared_folder / "stages"
    result = twinnet.stages(plain(), plain_input(), out=folder)
    assert result.verdict == "PASS"
    made = folder / "files"
    name = onnx.load(str(made / "network.onnx")).graph.input[0].name

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{name: plain_input().numpy()}]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.left.pop() if self.left else None

    # Seven bits: a processor without VNNI saturates sums of two 8-bit products.
    ways = {"quant_format": QuantFormat.QDQ, "reduce_range": True}
    quantize_static(made / "network.onnx", made / "int8.onnx", Once(), **ways)
    return made


def verdicts(result: StagedResult) -> dict[str, str]:
    """What was said of the step into each stage."""
    return {s.name: s.before.verdict for s in result.stages if s.before is not None}


def test_a_network_without_a_fault_passes_every_stage(files: Path) -> None:
    result = Result.load(files.parent)
    assert isinstance(result, StagedResult)
    assert result.entered is None and result.exit_code == 0
    assert verdicts(result) == dict.fromkeys(
        ["exported", "decomposed", "onnx", "optimised", "engine"], "PASS"
    )
    assert all(s.network.verdict == "PASS" for s in result.stages if s.network is not None)
    assert [s.name for s in result.stages if s.state == "skipped"] == ["quantised"]
    # Every step compared more than the outputs.
    assert all(len(r.pairs) > 3 for r in result.results)


def test_a_module_that_is_another_one_when_exported() -> None:
    result = twinnet.stages(OtherWhenExported(), plain_input())
    assert result.entered is not None and result.entered.name == "exported"
    assert verdicts(result) == {
        "exported": "FAIL",
        "decomposed": "PASS",
        "onnx": "PASS",
        "optimised": "PASS",
        "engine": "PASS",
    }
    found = result.result_of(result.entered)
    assert found is not None and found.findings[0].site.module == "gate"
    assert found.findings[0].cause is not None and "hard swish" in found.findings[0].cause.sentence
    # The difference stays: every later stage is as far from the network.
    assert all(s.network.verdict == "FAIL" for s in result.stages if s.network is not None)


def test_a_decomposition_that_is_not_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch._decomp.global_decomposition_table["post_autograd"]
    wrong = torch.ops.aten.hardswish.default
    monkeypatch.setitem(table, wrong, lambda x: x * torch.clamp(x + 3, 0, 6) / 6.5)
    result = twinnet.stages(plain(), plain_input())
    assert result.entered is not None and result.entered.name == "decomposed"
    found = result.result_of(result.entered)
    assert found is not None and [f.site.op for f in found.findings] == ["hardswish"]


def test_an_onnx_file_edited_after_export(files: Path, tmp_path: Path) -> None:
    model = onnx.load(str(files / "network.onnx"))
    scale_channel(model, node_of(model, "Conv", 1), 2, 1.5)
    result = twinnet.stages(plain(), plain_input(), f"onnxruntime:{save(model, tmp_path / 'edited.onnx')}")
    assert result.entered is not None and result.entered.name == "onnx"
    assert [n for n, v in verdicts(result).items() if v != "PASS"] == ["onnx"]
    found = result.result_of(result.entered)
    assert found is not None and found.findings[0].site.module == "2"
    assert found.findings[0].cause is not None and "channel 2" in found.findings[0].cause.sentence


def test_an_optimiser_that_changes_a_layer(files: Path, tmp_path: Path) -> None:
    model = onnx.load(str(files / "optimised.onnx"))
    fused = next(n for n in model.graph.node if n.op_type == "FusedConv")
    scale_channel(model, fused, 1, 0.5)
    result = twinnet.stages(plain(), plain_input(), f"onnxruntime:{save(model, tmp_path / 'fused.onnx')}")
    assert result.entered is not None and result.entered.name == "optimised"
    assert verdicts(result)["onnx"] == "PASS" and verdicts(result)["engine"] == "PASS"
    found = result.result_of(result.entered)
    assert found is not None and found.findings


def test_a_wrong_scale_in_a_quantised_file(files: Path, tmp_path: Path) -> None:
    network, x = str(files / "network.onnx"), plain_input().numpy()
    right = twinnet.stages(network, x, f"onnxruntime:{files / 'int8.onnx'}")
    assert right.verdict == "PASS" and verdicts(right)["quantised"] == "PASS"
    model = onnx.load(str(files / "int8.onnx"))
    weights = [n for n in model.graph.node if n.op_type == "DequantizeLinear" and "weight" in n.input[0]]
    scale = constant(model, weights[1].input[1])
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(1.5), scale.name))
    wrong = save(model, tmp_path / "int8.onnx")
    result = twinnet.stages(network, x, f"onnxruntime:{wrong}")
    assert result.entered is not None and result.entered.name == "quantised"
    assert [n for n, v in verdicts(result).items() if v != "PASS"] == ["quantised"]
    found = result.result_of(result.entered)
    assert found is not None and found.findings[0].site.module == "2"


def test_an_engine_that_computes_something_else(files: Path) -> None:
    def zeros(x: np.ndarray) -> np.ndarray:
        return np.zeros((1, 4, 10, 10), np.float32)

    result = twinnet.stages(str(files / "network.onnx"), plain_input().numpy(), zeros)
    assert result.entered is not None and result.entered.name == "engine"
    assert [n for n, v in verdicts(result).items() if v != "PASS"] == ["engine"]


def test_a_stage_that_cannot_run_does_not_stop_the_others(files: Path, tmp_path: Path) -> None:
    net = LooksAtTheData()
    path = tmp_path / "traced.onnx"
    torch.onnx.export(torch.nn.Sequential(net.only), (plain_input(),), str(path), dynamo=True, verbose=False)
    result = twinnet.stages(net, plain_input(), f"onnxruntime:{path}")
    assert verdicts(result) == {
        "exported": "ERROR",
        "decomposed": "ERROR",
        "onnx": "PASS",
        "optimised": "PASS",
        "engine": "PASS",
    }
    assert result.verdict == "ERROR" and result.exit_code == 3 and result.entered is None
    assert "data-dependent" in result.stages[1].reason.lower() or "torch.export" in result.stages[1].reason


def test_networks_that_start_later(files: Path, tmp_path: Path) -> None:
    program = torch.export.export(plain(), (plain_input(),))
    torch.export.save(program, tmp_path / "net.pt2")
    result = twinnet.stages(str(tmp_path / "net.pt2"), plain_input())
    assert result.stages[0].name == "exported" and result.verdict == "PASS"
    result = twinnet.stages(str(files / "network.onnx"), plain_input().numpy())
    assert [s.name for s in result.stages if s.state != "skipped"] == ["onnx", "optimised", "engine"]
    assert result.verdict == "PASS"


def test_files_of_a_pipeline_are_taken_as_they_are(files: Path, tmp_path: Path) -> None:
    model = onnx.load(str(files / "optimised.onnx"))
    scale_channel(model, next(n for n in model.graph.node if n.op_type == "FusedConv"), 1, 0.5)
    own = {"optimised": str(save(model, tmp_path / "own.onnx")), "quantised": str(files / "int8.onnx")}
    result = twinnet.stages(str(files / "network.onnx"), plain_input().numpy(), files=own)
    assert result.entered is not None and result.entered.name == "optimised"
    assert [s.file for s in result.stages if s.name in own] == list(own.values())


def test_wrong_usage() -> None:
    x = plain_input()
    with pytest.raises(UsageError, match="one twin"):
        twinnet.stages(plain(), x, "onnxruntime,torch")
    with pytest.raises(UsageError, match="no --watch"):
        stages_with(Options(watch=("a",)), Route(plain(), x))
    with pytest.raises(UsageError, match="no such network"):
        twinnet.stages(plain(), x, files={"onnx": "/nowhere.onnx"})
    done = CliRunner().invoke(app, ["check", "net.onnx", "--stage", "last=a.onnx"])
    assert isinstance(done.exception, UsageError)


def test_the_command_line_says_it_on_one_screen(files: Path, tmp_path: Path) -> None:
    model = onnx.load(str(files / "network.onnx"))
    scale_channel(model, node_of(model, "Conv", 1), 2, 1.5)
    wrong, out = save(model, tmp_path / "wrong.onnx"), tmp_path / "run"
    call = [
        "check",
        str(files / "network.onnx"),
        "--twin",
        f"onnxruntime:{wrong}",
        "--stages",
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 1, done.output
    assert "the difference enters at the stage optimised" in done.output
    assert "cause    weights of channel 2 are 1.5x" in done.output
    assert "twinnet repro" in done.output and "1-optimised" in done.output
    assert len(done.output.splitlines()) <= 24
    data = json.loads((out / "result.json").read_text())
    assert data["entered"] == "optimised" and data["verdict"] == "FAIL"
    assert [s["name"] for s in data["stages"]] == ["onnx", "optimised", "quantised", "engine"]
    again = Result.load(out)
    assert isinstance(again, StagedResult) and again.stages[1].before is not None
    assert again.stages[1].before.verdict == "FAIL"
    assert CliRunner().invoke(app, ["show", str(out)]).output == done.output
    # Judged again, without a run, the table of the stages stays, and its verdicts follow the tolerance.
    judged = CliRunner().invoke(app, ["judge", str(out)])
    assert judged.exit_code == 1 and judged.output == done.output
    loose = CliRunner().invoke(app, ["judge", str(out), "--atol", "1000"])
    assert loose.exit_code == 0, loose.output
    assert "PASS" in loose.output and "enters at" not in loose.output
    assert all(name in loose.output for name in ("onnx", "optimised", "engine"))
    report = (out / "report.html").read_text()
    assert "the difference enters here" in report and "1-optimised/report.html" in report
    assert "the difference enters at the stage optimised" in (out / "summary.md").read_text()
    # A repro of the whole is one of the step where the difference enters.
    assert twinnet.repro(out, tmp_path / "repro").confirmed
