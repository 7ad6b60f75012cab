"""ERROR verdicts made smaller: the same words from the engine, from one node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import twinnet
from tests.shrink.conftest import Start
from twinnet.shrink.script import normalised


@pytest.fixture(scope="session")
def refused(shared_folder: Path) -> Path:
    """A run of a network with an Erf in float64, which ONNX Runtime does not have."""
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "secret_weight"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Cast", ["b"], ["c"], to=TensorProto.DOUBLE),
        helper.make_node("Erf", ["c"], ["d"], name="middle/erf"),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["e"], ["f"]),
        helper.make_node("Mul", ["f", "b"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(weight, "secret_weight")]
    )
    path = shared_folder / "refused.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))
    result = twinnet.check(str(path), out=shared_folder / "refused")
    assert result.verdict == "ERROR"
    return shared_folder / "refused"


def test_one_node_is_refused_with_the_same_words(refused: Path, tmp_path: Path, start: Start) -> None:
    made = twinnet.repro(refused, tmp_path / "repro")
    assert (made.kind, made.nodes, made.elements, made.confirmed) == ("error", 1, 1, True)
    model = onnx.load(str(tmp_path / "repro" / "network.onnx"))
    assert [n.op_type for n in model.graph.node] == ["Erf"]
    code, said = start(tmp_path / "repro")
    assert code == 1
    assert "NOT_IMPLEMENTED" in said
    assert "NOT_IMPLEMENTED" in (tmp_path / "repro" / "ISSUE.md").read_text()


def test_it_tells_when_the_engine_runs_it(refused: Path, tmp_path: Path, start: Start) -> None:
    twinnet.repro(refused, tmp_path / "repro")
    model = onnx.load(str(tmp_path / "repro" / "network.onnx"))
    model.graph.node[0].op_type = "Abs"
    onnx.save(model, str(tmp_path / "repro" / "network.onnx"))
    assert start(tmp_path / "repro")[0] == 0


def test_another_refusal_is_not_the_fault(refused: Path, tmp_path: Path, start: Start) -> None:
    twinnet.repro(refused, tmp_path / "repro")
    (tmp_path / "repro" / "network.onnx").write_bytes(b"no network at all")
    code, said = start(tmp_path / "repro")
    assert code == 3
    assert "another reason" in said


def test_confidential(refused: Path, tmp_path: Path, start: Start) -> None:
    made = twinnet.repro(refused, tmp_path / "repro", confidential=True)
    assert made.confirmed
    for file in (tmp_path / "repro").iterdir():
        assert b"middle" not in file.read_bytes(), file.name


def test_messages_are_compared_without_names_numbers_and_paths() -> None:
    one = "Load from /home/a/net.onnx:12 failed: node (conv_3) 'w1' has shape {1,3,-1} at 0x7f00, expected 4"
    other = "Load from /tmp/x/y.onnx:9 failed: node (n0) 't1' has shape {7} at 0x1, expected 12"
    assert normalised(one, ["conv_3"]) == normalised(other, ["n0"])
    assert normalised("node Conv is not known", []) != normalised("node Erf is not known", [])
