"""What people meet who use it for the first time: shapes, names, notebooks, jobs of a CI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

import twinnet
from tests.onnx_edit import save
from tests.trust.running import call
from twinnet.errors import UsageError
from twinnet.job import Job
from twinnet.network.torch_network import TorchNetwork
from twinnet.onnx.export import onnx_artefact
from twinnet.overview import inspect, render
from twinnet.result import Result


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 3)
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 2, 1)
        self.eval()

    def forward(self, image: torch.Tensor) -> Mapping[str, torch.Tensor]:
        x = torch.relu(self.stem(image))
        return {"boxes": self.boxes(x), "scores": self.scores(x)}


X = torch.linspace(-1, 1, 3 * 12 * 10).reshape(1, 3, 12, 10)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = onnx_artefact(TorchNetwork(Detector(), example=X), None, Job({"image": X.numpy()})).model
    for output, name in zip(model.graph.output, ("boxes", "scores"), strict=True):
        (maker,) = (node for node in model.graph.node if output.name in node.output)
        maker.output[0] = output.name = name
    return Path(str(save(model, tmp_path_factory.mktemp("hers") / "hers.onnx")))


def _wrong() -> Detector:
    wrong = Detector()
    with torch.no_grad():
        wrong.boxes.weight[1] *= 1.5
    return wrong


def _checked(*args: object, **options: object) -> Result:
    found = twinnet.check(*args, **options)  # type: ignore[arg-type]
    assert isinstance(found, Result)
    return found


# -- shapes and names ------------------------------------------------------------------------------------------------


def test_shapes_are_taken_from_the_twin_and_that_is_said(file: Path) -> None:
    found = _checked(Detector(), twin=file, keep="none")
    assert found.verdict == "PASS" and found.inputs.shapes == {"image": "1x3x12x10"}
    assert any("shapes are those of" in str(g.fact) and "1x3x12x10" in str(g.fact) for g in found.guards)


def test_a_stated_shape_wins(file: Path) -> None:
    found = _checked(Detector(), twin=file, shapes={"image": (1, 3, 9, 9)}, keep="none")
    assert found.verdict == "ERROR" and found.inputs.shapes == {"image": "1x3x9x9"}


def test_outputs_have_the_names_of_the_user() -> None:
    found = _checked(Detector(), X, _wrong(), keep="none")
    assert "output 'boxes' differs" in repr(found)
    assert [pair.site.own_name for pair in found.outputs] == ["boxes", "scores"]


def test_a_rule_may_name_an_output(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nsite = "boxes"\natol = 10.0\n[[rule]]\nsite = "scores"\natol = 1e-5\n')
    found = _checked(Detector(), X, _wrong(), tolerance=rules, keep="none")
    assert found.verdict == "PASS" and not any("fits no site" in str(g.fact) for g in found.guards)


def test_names_that_nobody_has_are_said(file: Path) -> None:
    names = {"boxes": "boxes", "score": "scores", "relu": "reelu"}
    found = _checked(Detector(), X, file, names=names, watch=["conv*", "rellu"], keep="none")
    said = [str(g.fact) for g in found.guards if g.fact.code == "names.unknown"]
    assert said == [
        "--names: the network has nothing called score; did you mean scores?",
        "--names: the twin has nothing called reelu; did you mean relu?",
        "--watch: the network has nothing called rellu; did you mean relu?",
    ]


def test_sites_are_listed_by_the_names_that_options_take(file: Path) -> None:
    found = inspect(str(file), sites=True)
    assert [(s.tensor, s.op, s.role) for s in found.sites][-1] == ("scores", "Conv", "output")
    assert "boxes" in render(found) and "1x4x10x8 (output)" in render(found)


def test_shipped_tables_are_described() -> None:
    file = Path(twinnet.__file__).parent / "models" / "sr-x2-fast" / "sr-x2-fast.lut.safetensors"
    found = inspect(str(file))
    assert found.format == "lookup tables" and found.parameters > 1000 and not found.operators
    with pytest.raises(UsageError, match="cannot be listed"):
        inspect(str(file), sites=True)


# -- notebooks -------------------------------------------------------------------------------------------------------


def test_findings_are_short_and_pairs_are_a_table() -> None:
    found = _checked(Detector(), X, _wrong(), keep="none")
    assert repr(found.findings).startswith("(<boxes conv2d: weights of channel 1 are 1.5x, ")
    pandas = pytest.importorskip("pandas")
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert dict(zip(frame["module"].fillna(""), frame["status"]))["boxes"] == "fail"


def test_a_result_can_be_saved_afterwards(tmp_path: Path) -> None:
    found = _checked(Detector(), X, copy.deepcopy(Detector()), keep="none")
    folder = found.save(tmp_path / "run")
    again = Result.load(folder)
    assert again.verdict == "PASS" and (folder / "report.html").exists()


def test_mistakes_in_python_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="Detector is a class, not a network"):
        twinnet.check(Detector, X)
    with pytest.raises(UsageError, match="unknown value 'inner' for level"):
        twinnet.check(Detector(), X, "torch", level="inner")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown value 'some' for keep"):
        twinnet.check(Detector(), X, "torch", keep="some")  # type: ignore[arg-type]
    wrong = _checked(Detector(), X[:, :1], "torch", keep="none")
    assert wrong.verdict == "ERROR" and "Traceback" not in capfd.readouterr().err


def test_a_difference_is_drawn_as_text_and_as_pictures(tmp_path: Path) -> None:
    found = _checked(Detector(), X, _wrong())
    drawn = found.show()
    assert repr(drawn).startswith("site     boxes conv2d") and "heat map" in repr(drawn)
    assert drawn._repr_html_().count("data:image/png") == 3
    again = Result.load(found.save(tmp_path / "run"))
    assert isinstance(again, Result) and repr(again.show("boxes")) == repr(drawn)
    with pytest.raises(UsageError, match="no site 'nobody'"):
        found.show("nobody")


# -- a job of a CI ---------------------------------------------------------------------------------------------------


def test_a_refused_check_leaves_a_run_folder_where_one_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    said = call(monkeypatch, capfd, "check", tmp_path / "none.onnx", "--twin", "onnxruntime", "--out", run)
    assert said.code == 2
    assert "no such network" in (run / "summary.md").read_text().lower()
    assert "<error" in (run / "junit.xml").read_text()
    left = call(monkeypatch, capfd, "check", tmp_path / "none.onnx", "--twin", "onnxruntime")
    assert left.code == 2 and not Path("runs").exists()
