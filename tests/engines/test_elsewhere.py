"""ONNX Runtime of another interpreter: the same contract, another version."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import twinnet
from tests.needs import absent, need_engine
from tests.onnx_edit import make_model, node_of, save, set_attribute
from twinnet.engines import find_engine
from twinnet.engines._elsewhere import find_python
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder

X = {"x": np.random.default_rng(1).standard_normal((1, 3, 12, 10)).astype(np.float32)}
OLD = "1.23.2"


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("onnxruntime")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weight = (np.random.default_rng(0).standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=1),
        helper.make_node("GlobalAveragePool", ["s"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, 3, 12, 10)}, ["y"], {"w": weight})
    return save(model, tmp_path_factory.mktemp("elsewhere") / "net.onnx")


def _open(net: Path, job: Job | None = None, **options: str) -> Session:
    return find_engine("onnxruntime").open(load_network(str(net)), options, None, job or Job(X))


def _check(net: Path, twin: str, **options: object) -> Result:
    found = twinnet.check(str(net), X, twin, **options)
    assert isinstance(found, Result)
    return found


def test_the_other_interpreter_gives_what_this_one_gives(net: Path) -> None:
    here, there = _open(net), _open(net, python=sys.executable)
    try:
        assert np.array_equal(here.run(X)["y"], there.run(X)["y"])
        assert [s.tensor for s in here.sites] == [s.tensor for s in there.sites]
        watch = {s.tensor for s in here.sites}
        ours, theirs = (dict(s.trace(X, watch, TraceBuilder())) for s in (here, there))
        assert ours.keys() == theirs.keys() and all(np.array_equal(ours[n], theirs[n]) for n in ours)
        python = ".".join(map(str, sys.version_info[:3]))
        assert there.version == f"{onnxruntime.__version__} (Python {python}, numpy {np.__version__})"
    finally:
        there.close()


def test_a_fault_is_found_there_and_made_small(net: Path, tmp_path: Path) -> None:
    import onnx

    faulty = onnx.load(str(net))
    set_attribute(node_of(faulty, "Softmax"), "axis", 2)
    twin = f"onnxruntime?opt=off&python={sys.executable}:{save(faulty, tmp_path / 'abs.onnx')}"
    found = _check(net, twin, out=tmp_path / "run")
    assert found.verdict == "FAIL" and found.findings[0].site.tensor == "s", found
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.confirmed and made.nodes == 1, made
    assert sys.executable in (tmp_path / "repro" / "repro.py").read_text()


def test_what_it_refuses_there_is_an_error(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 12, 10)}, ["y"])
    model.graph.node[0].op_type, model.graph.node[0].domain = "NoSuchOperator", "com.microsoft"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(EngineError, match="could not load the network") as caught:
        _open(save(model, tmp_path / "odd.onnx"), python=sys.executable)
    assert "NoSuchOperator" in caught.value.log


def test_the_child_goes_with_its_session(net: Path) -> None:
    session = _open(net, python=sys.executable)
    child = session._elsewhere._worker._child  # type: ignore[attr-defined]
    assert child.poll() is None
    session.close()
    assert child.poll() is not None


def test_a_crash_there_is_an_error_here(net: Path) -> None:
    session = _open(net, python=sys.executable)
    session._elsewhere._worker._child.kill()  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="could not run the network: it died of SIGKILL"):
        session.run(X)
    session.close()


def test_an_interpreter_without_onnxruntime_says_what_it_needs(net: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    with pytest.raises(EngineError) as caught:
        _open(net, python=str(tmp_path / "empty"))
    assert "No module named" in str(caught.value) and "numpy and onnxruntime" in str(caught.value)


def test_a_place_without_an_interpreter_is_wrong_usage(net: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Python interpreter at"):
        find_python(str(tmp_path))
    with pytest.raises(UsageError, match="no Python interpreter at"):
        _open(net, python=str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_another_version_runs_the_twin(net: Path, tmp_path: Path) -> None:
    place = tmp_path / "old"
    venv.create(place, with_pip=True)
    command = [
        str(place / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "-q",
        f"onnxruntime=={OLD}",
        "numpy<2.4",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        absent(f"pip cannot install onnxruntime {OLD}: {done.stderr[-300:]}")
    found = _check(net, f"onnxruntime?python={place}")
    assert found.verdict == "PASS", found
    assert found.twin.version.startswith(OLD) and onnxruntime.__version__ != OLD
    assert found.coverage.share > 0.7
