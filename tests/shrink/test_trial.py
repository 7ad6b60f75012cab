"""A trial that cannot run shows nothing."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import parser

from twinnet.shrink.seed import Runner
from twinnet.shrink.trial import Bench, Candidate

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
ORT = Runner("onnxruntime", {"opt": "off"})
X = {"x": np.linspace(-2, 2, 8, dtype=np.float32)}


def model(body: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEAD} g (float[8] x) => (float[8] y) {{ {body} }}")


def bench() -> Bench:
    return Bench(ORT, ORT, 2.0**-24, 4.0)


def test_other_values_show() -> None:
    found = bench().shows(Candidate.of(model("y = Relu(x)"), model("y = Sigmoid(x)"), X, {}))
    assert found is not None
    assert found.kind == "numbers"
    assert found.output == "y"
    assert found.born.ratio is not None and found.born.ratio > 1e3


def test_equal_values_do_not() -> None:
    assert bench().shows(Candidate.of(model("y = Relu(x)"), model("y = Relu(x)"), X, {})) is None


def test_a_crash_is_counted_and_never_accepted() -> None:
    trial = bench()
    refused = model("a = Cast<to: int = 11>(x)\n b = Erf(a)\n y = Cast<to: int = 1>(b)")
    assert trial.shows(Candidate.of(model("y = Relu(x)"), refused, X, {})) is None
    assert (trial.ran, trial.failed) == (1, 1)


def test_another_kind_of_fault_is_not_the_same_fault() -> None:
    trial = bench()
    assert trial.shows(Candidate.of(model("y = Relu(x)"), model("y = Sigmoid(x)"), X, {})) is not None
    nan = model("a = Log(x)\n y = Identity(a)")
    assert trial.shows(Candidate.of(model("y = Relu(x)"), nan, X, {})) is None


def test_a_fault_of_both_sides_is_no_difference() -> None:
    """Where the network's own engine is off as well, nothing is said about the twin."""
    trial = Bench(
        Runner("onnxruntime", {"config.optimization.enable_gelu_approximation": "1"}), ORT, 2.0**-24, 4.0
    )
    gelu = model(
        "r = Constant<value: tensor = float {1.4142135}>()\n o = Constant<value: tensor = float {1.0}>()\n"
        "h = Constant<value: tensor = float {0.5}>()\n"
        "b = Div(x, r)\n c = Erf(b)\n d = Add(c, o)\n e = Mul(x, d)\n y = Mul(e, h)"
    )
    tripled = model("z = Constant<value: tensor = float {3.0}>()\n y = Mul(x, z)")
    assert trial.shows(Candidate.of(gelu, tripled, X, {})) is None


def test_the_allowance_ends() -> None:
    trial = Bench(ORT, ORT, 2.0**-24, 4.0, trials=1)
    faulty = Candidate.of(model("y = Relu(x)"), model("y = Sigmoid(x)"), X, {})
    assert trial.shows(faulty) is not None
    assert trial.spent
    assert trial.shows(faulty) is None
