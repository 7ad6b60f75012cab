"""What a run says is so: repros, baselines, rules, stages and quantised twins."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import twinnet
from tests.narrow import Files, export, weight_of
from twinnet.errors import UsageError
from twinnet.judge.again import judge_again
from twinnet.judge.tolerance import read_tolerances
from twinnet.result import Result
from twinnet.shrink.folder import start

Edit = Callable[[np.ndarray], np.ndarray]


def edited(source: Path, target: Path, **edits: Edit) -> Path:
    """A copy of an ONNX file with other data for some weights; dots of their names are written as two underscores."""
    model = onnx.load(str(source))
    for name, edit in edits.items():
        tensor = weight_of(model, name.replace("__", "."))
        array = numpy_helper.to_array(tensor).copy()
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(edit(array), array.dtype), tensor.name))
    onnx.save(model, str(target))
    return target


def flipped(weight: np.ndarray) -> np.ndarray:
    weight[3, 2, 1, 1] = -64 if weight[3, 2, 1, 1] > 0 else 64
    return weight


FAULTS: dict[str, tuple[dict[str, Edit], dict[str, Edit], str]] = {
    "scale": (
        {"left__weight_scale": lambda a: a * 2},
        {"left__weight_scale": lambda a: a / 2},
        "steps.scale",
    ),
    "range": ({"relu_1_scale": lambda a: a * 0.4}, {"relu_1_scale": lambda a: a / 0.4}, "steps.range"),
    "one": ({"left__weight_quantized": flipped}, {}, "steps.one"),
}
"""What is done to the file, how it is undone by hand, and the cause that must be named."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_repro_of_an_int8_fault_shows_it_and_passes_when_it_is_repaired(
    narrow: Files, tmp_path: Path, name: str
) -> None:
    fault, undo, code = FAULTS[name]
    file = edited(narrow.int8, tmp_path / "twin.onnx", **fault)
    image = {"image": narrow.image.numpy()}
    found = twinnet.check(str(narrow.network), image, f"onnxruntime:{file}", out=tmp_path / "run")
    assert isinstance(found, Result)
    first = found.findings[0]
    assert first.cause is not None and first.cause.fact.code == code
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert (made.confirmed, made.repaired) == (True, True), str(made)
    assert "the fault is gone" in str(made)
    with np.load(tmp_path / "repro/inputs.npz") as inputs:
        assert any(inputs[k].any() for k in inputs.files)
    assert "network  agrees" in made.said
    if undo:
        healed = shutil.copytree(tmp_path / "repro", tmp_path / "healed")
        edited(healed / "twin.onnx", healed / "twin.onnx", **undo)
        exit_code, said = start(healed)
        assert exit_code == 0, said


def test_steps_that_are_far_too_large_need_no_repro(narrow: Files, tmp_path: Path) -> None:
    file = edited(narrow.int8, tmp_path / "twin.onnx", relu_1_scale=lambda a: a * 16)
    checked(narrow, file, tmp_path / "run")
    with pytest.raises(UsageError, match="steps that are far too large"):
        twinnet.repro(tmp_path / "run", tmp_path / "repro")


# -- baselines ---------------------------------------------------------------------------------------------------------


def checked(files: Files, twin: Path, out: Path, **more: str) -> Result:
    image = {"image": files.image.numpy()}
    found = twinnet.check(str(files.network), image, f"onnxruntime:{twin}", out=out, **more)  # type: ignore[arg-type]
    assert isinstance(found, Result)
    return found


@pytest.fixture(scope="module")
def runs(narrow: Files, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three checks: a fault, the same one against that as a baseline, and a new, smaller one besides."""
    folder = tmp_path_factory.mktemp("baseline")
    old = edited(narrow.network, folder / "old.onnx", left__weight=lambda a: a * 1.5)
    new = edited(old, folder / "new.onnx", head__weight=lambda a: a * 1.001)
    checked(narrow, old, folder / "before")
    checked(narrow, old, folder / "same", baseline=str(folder / "before"))
    checked(narrow, new, folder / "worse", baseline=str(folder / "before"))
    return {name: folder / name for name in ("before", "same", "worse")}


def test_a_known_failure_is_called_known(runs: dict[str, Path]) -> None:
    known = Result.load(runs["same"])
    assert isinstance(known, Result)
    assert known.verdict == "PASS"
    said = repr(known)
    assert "PASS     nothing new: 1 failure is known" in said
    assert "agrees" not in said
    headline = next(line for line in said.splitlines() if line.startswith("PASS"))
    assert " x " not in headline
    assert known.known_findings[0].cause is not None
    assert known.known_findings[0].cause.sentence in " ".join(said.split())


def test_known_findings_are_skipped_tests_and_named_in_the_summary(runs: dict[str, Path]) -> None:
    suites = ET.parse(runs["same"] / "junit.xml").getroot()
    (suite,) = suites.findall("testsuite")
    skipped = suite.findall("testcase/skipped")
    assert (len(skipped), suite.get("skipped"), suite.get("failures")) == (1, "1", "0")
    assert skipped[0].get("message", "").startswith("known from the baseline: ")
    text = (runs["same"] / "summary.md").read_text()
    assert "Known from the baseline, not counted: " in text and "the weights" in text


def test_a_repro_of_a_run_with_a_baseline_is_of_the_new_finding(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    worse = Result.load(runs["worse"])
    assert isinstance(worse, Result)
    assert [f.site.tensor for f in worse.findings] == ["linear"]
    assert worse.known
    made = twinnet.repro(runs["worse"], tmp_path / "repro")
    assert made.place == worse.findings[0].site.label
    assert made.confirmed
    with pytest.raises(UsageError, match="nothing to reproduce"):
        twinnet.repro(runs["same"], tmp_path / "none")


# -- rules -------------------------------------------------------------------------------------------------------------

RULES = """
[[rule]]
op = "relu"
atol = 1e-3

[[rule]]
op = "softmax"
atol = 1e-3

[[rule]]
site = "linear"
atol = 10.0
"""


def test_the_headline_is_the_rule_that_failed(runs: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    before = Result.load(runs["before"])
    assert isinstance(before, Result)
    result = judge_again(before, read_tolerances(file))
    lines = [" ".join(line.split()) for line in repr(result).splitlines()]
    verdict = next(i for i, line in enumerate(lines) if line.startswith("FAIL"))
    assert lines[verdict].startswith("FAIL the rule 'op relu: atol 0.001' is broken at 1 site: relu_2 Relu")
    breaks = next(i for i, line in enumerate(lines) if line.startswith("breaks relu_2"))
    born = next(i for i, line in enumerate(lines) if line.startswith("born in"))
    assert verdict < breaks < born
    text = " ".join(lines)
    assert "because differs by" in text and "float32 rounding can explain" not in text
    assert "the rule 'op softmax: atol 0.001' fits no site" in text
    assert "op relu" not in " ".join(str(g.fact) for g in result.guards)


def test_a_rule_for_nothing_weakens_a_pass(runs: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\nmodule = "no.such*"\natol = 1.0\n')
    before = Result.load(runs["before"])
    assert isinstance(before, Result)
    result = judge_again(before, read_tolerances(file))
    assert (result.verdict, result.evidence) == ("PASS", "weak")
    assert judge_again(result, read_tolerances(None)).guards == before.guards


# -- stages ------------------------------------------------------------------------------------------------------------


def test_one_error_has_one_judgement_in_every_column(narrow: Files, tmp_path: Path) -> None:
    file = edited(narrow.int8, tmp_path / "int8.onnx", relu_1_scale=lambda a: a * 0.4)
    found = twinnet.stages(narrow.module, narrow.image, f"onnxruntime:{file}")
    stage = next(s for s in found.stages if s.name == "quantised")
    assert stage.before is not None and stage.network is not None
    assert (stage.before.verdict, stage.network.verdict) == ("FAIL", "FAIL")
    assert stage.before.ratio == pytest.approx(stage.network.ratio, rel=0.01)
    last = found.stages[-1].network
    assert last is not None and last.ratio == pytest.approx(stage.network.ratio, rel=0.01)


# -- calibration -------------------------------------------------------------------------------------------------------


def test_several_ranges_that_are_too_small_are_one_answer(narrow: Files, tmp_path: Path) -> None:
    small: dict[str, Edit] = {
        f"{name}_scale": lambda a: a * 0.4 for name in ("relu", "relu_1", "relu_2", "add")
    }
    file = edited(narrow.int8, tmp_path / "int8.onnx", **small)
    found = checked(narrow, file, tmp_path / "run")
    ranges = [f for f in found.findings if f.cause is not None and f.cause.fact.code == "steps.range"]
    assert len(ranges) >= 2
    said = " ".join(repr(found).split())
    assert said.count("recalibrate: these ranges clip up to") == 1
    assert all(f.site.label in said.partition("recalibrate: ")[2] for f in ranges)
    assert "recalibrate: these ranges clip" in (tmp_path / "run/summary.md").read_text()
    one = edited(narrow.int8, tmp_path / "one.onnx", relu_1_scale=lambda a: a * 0.4)
    assert "recalibrate" not in repr(checked(narrow, one, tmp_path / "other"))


# -- int8 by the book --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_softmax_quantised_by_the_book_passes(tmp_path: Path, per_channel: bool) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.Linear(40, 10), nn.Softmax(-1)).eval()
    x = torch.randn(4, 20, generator=torch.Generator().manual_seed(1))
    export(net, x, tmp_path / "network.onnx")

    class Once(CalibrationDataReader):
        left = iter([{"image": x.numpy()}])

        def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return next(self.left, None)

    quantize_static(
        tmp_path / "network.onnx",
        tmp_path / "int8.onnx",
        Once(),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        weight_type=QuantType.QInt8,
        activation_type=QuantType.QUInt8,
        reduce_range=True,
    )
    image = {"image": x.numpy()}
    found = twinnet.check(str(tmp_path / "network.onnx"), image, f"onnxruntime:{tmp_path / 'int8.onnx'}")
    assert found.verdict == "PASS", repr(found)


class Integer(nn.Module):
    """What ONNX Runtime has integer operators for: convolution, pooling, a gate, a sum, parts, a product, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.stem, self.gate = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.other, self.last = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(16, 10)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.stem(x).relu(), 2)
        x = x * self.gate(x).sigmoid()
        x = torch.cat([x, x + self.other(x).clamp(0, 6)], 1)
        return self.last(x.mean((2, 3))).softmax(1)


QOPERATOR = "onnxruntime?quantize=static&format=qoperator&reduce_range=1"


def test_integer_operators_made_by_the_book_pass_and_a_fault_in_one_is_found(tmp_path: Path) -> None:
    from twinnet.engines import find_engine
    from twinnet.engines.onnx_session import TappedSession
    from twinnet.job import Job
    from twinnet.network import load_network

    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    export(Integer(), x, tmp_path / "network.onnx")
    image = {"image": x.numpy()}
    found = twinnet.check(str(tmp_path / "network.onnx"), image, QOPERATOR)
    assert isinstance(found, Result) and found.verdict == "PASS", repr(found)
    options = {"quantize": "static", "format": "qoperator", "reduce_range": "1"}
    session = find_engine("onnxruntime").open(
        load_network(str(tmp_path / "network.onnx")), options, None, Job(image)
    )
    kinds = {layer.op for layer in session.graph() or ()}
    assert {"QLinearConv", "QLinearMul", "QLinearSigmoid", "QLinearConcat", "QLinearSoftmax"} <= kinds
    assert isinstance(session, TappedSession)
    model = session.artefact.network.complete()
    node = [n for n in model.graph.node if n.op_type == "QLinearConv"][2]
    scale = next(t for t in model.graph.initializer if t.name == node.input[4])
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * 2, scale.name))
    onnx.save(model, str(tmp_path / "wrong.onnx"))
    wrong = twinnet.check(str(tmp_path / "network.onnx"), image, f"onnxruntime:{tmp_path / 'wrong.onnx'}")
    assert isinstance(wrong, Result)
    assert [f.site.tensor for f in wrong.findings] == ["clamp"], repr(wrong)
