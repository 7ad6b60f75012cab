"""onnx.reference: node by node, with a time limit that holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import twinnet
from tests.onnx_edit import make_model, save
from twinnet.engines import find_engine
from twinnet.errors import EngineError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder

X = {"x": np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    w = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("LayerNormalization", ["b", "s"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"]),
    ]
    model = make_model(nodes, {"x": (4, 8)}, ["y"], {"w": w, "s": np.ones(8, np.float32)})
    return save(model, tmp_path_factory.mktemp("ref") / "net.onnx")


def test_every_value_is_seen(file: Path) -> None:
    session = find_engine("onnx-reference").open(load_network(str(file)), {}, None, Job(X))
    seen = session.trace(X, {s.tensor for s in session.sites}, TraceBuilder())
    assert list(seen) == ["x", "a", "b", "c", "y"]
    assert np.array_equal(seen["y"], session.run(X)["y"])


def test_it_agrees_with_onnxruntime_at_every_site(file: Path) -> None:
    found = twinnet.check(str(file), X, "onnx-reference,onnxruntime?opt=all", reference="onnxruntime?opt=off")
    assert found.verdict == "PASS", found


def test_the_time_limit_is_an_engine_error(file: Path) -> None:
    job = Job(X, time_limit=0.0)
    with pytest.raises(EngineError, match="exceeded the time limit of 0 s"):
        find_engine("onnx-reference").open(load_network(str(file)), {}, None, job)
    found = twinnet.check(str(file), X, "onnx-reference", limits=twinnet.Limits(time_limit=0.0))
    assert isinstance(found, Result) and found.verdict == "ERROR" and "time limit" in found.error


def test_a_node_it_cannot_run_is_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "n"], ["y"])]
    model = make_model(nodes, {"x": (4, 8)}, ["y"], {"n": np.array([2, 16])})
    model.graph.initializer[0].CopyFrom(__import__("onnx").numpy_helper.from_array(np.array([3, 5]), "n"))
    session = find_engine("onnx-reference").open(
        load_network(str(save(model, tmp_path / "bad.onnx"))), {}, None, Job(X)
    )
    with pytest.raises(EngineError, match=r"could not run node y \(Reshape\)"):
        session.run(X)
