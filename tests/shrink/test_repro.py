"""Repros of faults whose sides both run: they are small, they show the fault, and they tell when it is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import twinnet
from tests.shrink.conftest import Start
from twinnet.demo.fault import plant_padding_fault
from twinnet.errors import UsageError
from twinnet.inputs import load_inputs
from twinnet.network import load_network
from twinnet.shrink.seed import load_seeds

APPROXIMATE = "onnxruntime?config.optimization.enable_gelu_approximation=1"


@pytest.fixture(scope="session")
def detector_repro(detector: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repro")
    made = twinnet.repro(detector[0], folder)
    assert made.confirmed
    assert made.nodes == 1
    return folder


def test_a_fault_in_a_real_network_becomes_one_node(detector: tuple[Path, str], detector_repro: Path) -> None:
    for name in ("network.onnx", "twin.onnx"):
        model = onnx.load(str(detector_repro / name))
        onnx.checker.check_model(model, full_check=True)
        assert [n.op_type for n in model.graph.node] == ["Conv"]
        assert model.graph.node[0].output[0] == detector[1]
    with np.load(detector_repro / "inputs.npz", allow_pickle=False) as data:
        assert sum(data[k].size for k in data.files) <= 25


def test_it_exits_with_1_0_and_3(detector_repro: Path, tmp_path: Path, start: Start) -> None:
    code, said = start(detector_repro)
    assert code == 1, said
    assert "network  agrees" in said
    healed = shutil.copytree(detector_repro, tmp_path / "healed")
    shutil.copy(healed / "network.onnx", healed / "twin.onnx")
    assert start(healed)[0] == 0
    broken = shutil.copytree(detector_repro, tmp_path / "broken")
    (broken / "twin.onnx").write_bytes((broken / "twin.onnx").read_bytes()[:40])
    assert start(broken)[0] == 3
    (broken / "twin.onnx").unlink()
    assert start(broken)[0] == 3


def test_the_issue_says_what_differs(detector_repro: Path) -> None:
    text = (detector_repro / "ISSUE.md").read_text()
    assert "conv: weight" in text
    assert "python repro.py" in text
    assert f"numpy=={np.__version__}" in text
    assert "| element | expected | observed |" in text


def test_a_fusion_needs_all_of_its_nodes(gelu: Path, tmp_path: Path, start: Start) -> None:
    """Same file, other options: no node can be left out, or ONNX Runtime would not fuse."""
    result = twinnet.check(str(gelu), twin=APPROXIMATE)
    made = twinnet.repro(result, tmp_path / "repro")  # without a run folder
    assert made.confirmed
    model = onnx.load(str(tmp_path / "repro" / "network.onnx"))
    assert [n.op_type for n in model.graph.node] == ["Div", "Erf", "Add", "Mul", "Mul"]
    assert made.elements == 1
    assert not (tmp_path / "repro" / "twin.onnx").exists()
    program = tmp_path / "repro" / "repro.py"
    program.write_text(
        program.read_text().replace("enable_gelu_approximation': '1'", "enable_gelu_approximation': '0'")
    )
    assert start(tmp_path / "repro")[0] == 0


@pytest.fixture(scope="session")
def demo_run(shared_folder: Path) -> Path:
    folder = shared_folder / "demo"
    network = load_network("twinnet.demo.network:build")
    sample = load_inputs(network.signature).samples[0]
    plant_padding_fault(network, sample, folder / "faulty.onnx")
    twinnet.check(
        "twinnet.demo.network:build",
        twin=f"onnxruntime:{folder / 'faulty.onnx'}",
        samples=1,
        out=folder / "run",
    )
    return folder / "run"


def test_a_torch_network_needs_no_code_of_the_user(demo_run: Path, tmp_path: Path, start: Start) -> None:
    made = twinnet.repro(demo_run, tmp_path / "repro")
    assert (made.confirmed, made.nodes) == (True, 1)
    twin = onnx.load(str(tmp_path / "repro" / "twin.onnx"))
    network = onnx.load(str(tmp_path / "repro" / "network.onnx"))
    pads = [list(a.ints) for m in (network, twin) for a in m.graph.node[0].attribute if a.name == "pads"]
    assert pads == [[1, 1, 1, 1], [0, 0, 2, 2]]
    issue = (tmp_path / "repro" / "ISSUE.md").read_text()
    assert "pads is (1, 1, 1, 1) in A, (0, 0, 2, 2) in B" in issue
    assert "stored values" in issue
    (finding, *_) = twinnet.Result.load(demo_run).findings  # type: ignore[union-attr]
    assert made.place == finding.site.label
    assert finding.cause is not None
    assert finding.cause.sentence in issue
    assert "stored values" in (tmp_path / "repro" / "repro.py").read_text()
    shutil.copy(tmp_path / "repro" / "network.onnx", tmp_path / "repro" / "twin.onnx")
    assert start(tmp_path / "repro")[0] == 0


def test_confidential_keeps_the_fault_and_nothing_else(demo_run: Path, tmp_path: Path, start: Start) -> None:
    twinnet.repro(demo_run, tmp_path / "open")
    made = twinnet.repro(demo_run, tmp_path / "hidden", confidential=True)
    assert made.confirmed
    assert made.kept == ()
    assert start(tmp_path / "hidden")[0] == 1
    for file in (tmp_path / "hidden").iterdir():
        data = file.read_bytes()
        for word in (b"blocks", b"depthwise", b"silu", b"demo", b"getitem"):
            assert word not in data, file.name
    for name in ("network.onnx", "twin.onnx"):
        plain, hidden = (onnx.load(str(tmp_path / kind / name)).graph for kind in ("open", "hidden"))
        before = {t.raw_data for t in plain.initializer if len(t.raw_data) > 4}
        assert before
        assert not before & {t.raw_data for t in hidden.initializer}
    assert "random" in (tmp_path / "hidden" / "ISSUE.md").read_text()


def test_confidential_keeps_a_weight_fault(detector: tuple[Path, str], tmp_path: Path, start: Start) -> None:
    made = twinnet.repro(detector[0], tmp_path / "hidden", confidential=True)
    assert made.confirmed
    shutil.copy(tmp_path / "hidden" / "network.onnx", tmp_path / "hidden" / "twin.onnx")
    assert start(tmp_path / "hidden")[0] == 0


def test_the_seed_comes_back_as_it_was_kept(detector: tuple[Path, str]) -> None:
    (seed,) = load_seeds(detector[0])
    assert (seed.kind, seed.output) == ("live", detector[1])
    assert seed.ratio > 1e3
    assert seed.network is not None and seed.twin is not None
    assert seed.nbytes < 8 << 20


def test_what_cannot_be_reproduced_is_said(gelu: Path, detector: tuple[Path, str], tmp_path: Path) -> None:
    passed = twinnet.check(str(gelu), twin="onnxruntime", out=tmp_path / "passed")
    with pytest.raises(UsageError, match="passed: there is nothing"):
        twinnet.repro(passed)
    with pytest.raises(UsageError, match="no finding 9"):
        twinnet.repro(detector[0], tmp_path / "x", finding=8)
    unkept = twinnet.check(str(gelu), twin=APPROXIMATE, keep="none")
    with pytest.raises(UsageError, match="nothing in this run can be made into a repro"):
        twinnet.repro(unkept, tmp_path / "x")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        twinnet.repro(detector[0], tmp_path / "thesis")


def test_a_second_run_replaces_the_seeds(gelu: Path, tmp_path: Path) -> None:
    twinnet.check(str(gelu), twin=APPROXIMATE, out=tmp_path)
    assert len(load_seeds(tmp_path)) == 1
    twinnet.check(str(gelu), twin="onnxruntime", out=tmp_path)
    assert load_seeds(tmp_path) == ()
