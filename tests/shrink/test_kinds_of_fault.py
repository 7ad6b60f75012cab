"""Every way in which a tensor can be wrong has a repro of the same kind."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from onnx import parser

import twinnet
from tests.shrink.conftest import Start

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


@dataclass(frozen=True)
class Case:
    """Two graphs that share their ends, the operators of the smallest part, and what is said of it."""

    ends: str
    network: str
    twin: str
    ops: tuple[str, ...]
    said: str


CASES = {
    "integers": Case(
        "(float[4,16] x) => (int64[4] y)",
        "a = Relu(x)\n y = ArgMax<axis: int = 1, keepdims: int = 0>(a)",
        "a = Relu(x)\n y = ArgMin<axis: int = 1, keepdims: int = 0>(a)",
        ("ArgMax",),
        "elements differ",
    ),
    "not a number": Case(
        "(float[4,16] x) => (float[4,16] y)",
        "a = Relu(x)\n b = Sqrt(a)\n y = Neg(b)",
        "a = Relu(x)\n b = Sqrt(x)\n y = Neg(b)",
        ("Sqrt",),
        "nan",
    ),
    "shape": Case(
        "(float[1,3,16,16] x) => (float[n,c,p,q] y)",
        "a = Relu(x)\n b = MaxPool<kernel_shape: ints = [2,2], strides: ints = [2,2]>(a)\n y = Neg(b)",
        "a = Relu(x)\n b = MaxPool<kernel_shape: ints = [2,2], strides: ints = [1,1]>(a)\n y = Neg(b)",
        ("MaxPool",),
        "The shape is",
    ),
    "moved values": Case(
        "(float[2,6] x) => (float[n,c] y)",
        "s = Shape(x)\n a = Relu(x)\n b = Transpose<perm: ints = [1,0]>(a)\n c = Reshape(b, s)\n y = Exp(c)",
        "s = Shape(x)\n a = Relu(x)\n b = Transpose<perm: ints = [0,1]>(a)\n c = Reshape(b, s)\n y = Exp(c)",
        ("Transpose", "Reshape"),
        "elements differ",
    ),
    "operands": Case(
        "(float[4,16] x) => (float[4,16] y)",
        "a = Exp(x)\n b = Sub(a, x)\n y = Neg(b)",
        "a = Exp(x)\n b = Sub(x, a)\n y = Neg(b)",
        ("Sub",),
        "elements differ",
    ),
}


@pytest.mark.parametrize("confidential", [False, True], ids=["open", "confidential"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_small_and_shows_the_same(name: str, confidential: bool, tmp_path: Path, start: Start) -> None:
    case = CASES[name]
    for side, body in (("network", case.network), ("twin", case.twin)):
        onnx.save(parser.parse_model(f"{HEAD} g {case.ends} {{ {body} }}"), str(tmp_path / f"{side}.onnx"))
    result = twinnet.check(str(tmp_path / "network.onnx"), twin=f"onnxruntime:{tmp_path / 'twin.onnx'}")
    assert result.verdict == "FAIL"
    folder = tmp_path / "repro"
    made = twinnet.repro(result, folder, confidential=confidential)
    assert made.confirmed
    assert tuple(n.op_type for n in onnx.load(str(folder / "network.onnx")).graph.node) == case.ops
    assert case.said in (folder / "ISSUE.md").read_text()
    assert start(folder)[0] == 1
    if name != "not a number":  # there the twin reads another input than the network
        shutil.copy(folder / "network.onnx", folder / "twin.onnx")
        assert start(folder)[0] == 0


def test_hiding_never_makes_a_difference_of_its_own(tmp_path: Path, start: Start) -> None:
    """The twin lays its weights out in another way: what cannot be changed alike on both sides stays."""
    ends = "(float[1,3,8,8] x) => (float[1,3,8,8] y)"
    ours = "a = Sigmoid(x)\n b = Mul(a, k)\n c = Exp(b)\n y = Neg(c)"
    theirs = (
        "t = Transpose<perm: ints = [0,2,3,1]>(x)\n e = Sigmoid(t)\n f = Mul(e, k)\n g = Exp(f)\n"
        "h = Transpose<perm: ints = [0,3,1,2]>(g)\n y = Neg(h)"
    )
    wrong, right = "{1.5, 2.5, 3.9}", "{1.5, 2.5, 3.5}"
    for name, shape, values, body in (
        ("network", "1,3,1,1", right, ours),
        ("twin", "3", wrong, theirs),
        ("healthy", "3", right, theirs),
    ):
        text = f"{HEAD} g {ends} <float[{shape}] k = {values}> {{ {body} }}"
        onnx.save(parser.parse_model(text), str(tmp_path / f"{name}.onnx"))
    result = twinnet.check(str(tmp_path / "network.onnx"), twin=f"onnxruntime:{tmp_path / 'twin.onnx'}")
    made = twinnet.repro(result, tmp_path / "repro", confidential=True)
    assert made.confirmed
    assert len(made.kept) == 1
    assert made.kept[0] in (tmp_path / "repro" / "ISSUE.md").read_text()
    network, twin = (onnx.load(str(tmp_path / "repro" / f"{n}.onnx")).graph for n in ("network", "twin"))
    held = [onnx.numpy_helper.to_array(g.initializer[0]).reshape(-1).tolist() for g in (network, twin)]
    assert held == [pytest.approx([1.5, 2.5, 3.5]), pytest.approx([1.5, 2.5, 3.9])]
    assert (
        twinnet.check(str(tmp_path / "network.onnx"), twin=f"onnxruntime:{tmp_path / 'healthy.onnx'}").verdict
        == "PASS"
    )
