"""Leaving out nodes must not show a difference that was not there."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from twinnet.shrink.inputs import smaller_input
from twinnet.shrink.nodes import fewer_nodes
from twinnet.shrink.seed import Link, Runner
from twinnet.shrink.trial import Bench, Candidate

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
ORT = Runner("onnxruntime", {"opt": "off"})


def model(body: str, **weights: np.ndarray) -> onnx.ModelProto:
    made = parser.parse_model(f"{HEAD} g (float[1,4,6,6] x) => (float[1,4,6,6] y) {{ {body} }}")
    made.graph.initializer.extend(
        numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()
    )
    return made


def test_a_folded_batch_norm_is_not_taken_for_the_fault() -> None:
    """Both files call the convolution's result "c", with batch norm folded into one: only the end can be compared."""
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((4, 4, 1, 1)), rng.standard_normal(4)
    scale, shift, mean, var = (
        rng.uniform(1, 2, 4),
        rng.standard_normal(4),
        rng.standard_normal(4),
        rng.uniform(1, 2, 4),
    )
    rate = scale / np.sqrt(var + 1e-5)
    network = model(
        "c = Conv(x, w, b)\n n = BatchNormalization(c, s, o, m, v)\n y = Relu(n)",
        w=weight, b=bias, s=scale, o=shift, m=mean, v=var,
    )  # fmt: skip
    folded = {"w": weight * rate[:, None, None, None], "b": (bias - mean) * rate + shift}
    healthy = model("c = Conv(x, w, b)\n y = Relu(c)", **folded)
    faulty = model("c = Conv(x, w, b)\n y = Sigmoid(c)", **folded)
    feeds = {"x": rng.standard_normal((1, 4, 6, 6)).astype(np.float32)}
    links = {"x": Link("x", "x"), "y": Link("y", "y")}
    # Folding itself is within rounding, so that Sigmoid is the only difference.
    bench = Bench(ORT, ORT, 2.0**-24, 64.0)
    assert bench.shows(Candidate.of(network, healthy, feeds, links)) is None
    candidate = Candidate.of(network, faulty, feeds, links)
    assert bench.shows(candidate) is not None
    smaller = smaller_input(bench, fewer_nodes(bench, candidate))
    assert {n.op_type for n in smaller.network.graph.node} == {"Conv", "BatchNormalization", "Relu"}
    assert {n.op_type for n in smaller.twin.graph.node} == {"Conv", "Sigmoid"}


def test_the_middle_of_a_chain_is_found() -> None:
    """Any subset, not only prefixes: the fault is neither first nor last."""
    chain = [
        ("Sigmoid", {}),
        ("Exp", {}),
        ("LeakyRelu", {"alpha": 0.1}),
        ("Tanh", {}),
        ("Neg", {}),
        ("Exp", {}),
    ]

    def build(alpha: float) -> onnx.ModelProto:
        made = model("y = Relu(x)")
        del made.graph.node[:]
        names = ["x", *(f"v{i}" for i in range(len(chain) - 1)), "y"]
        for (op, attributes), a, b in zip(chain, names, names[1:], strict=False):
            values = {"alpha": alpha} if attributes else {}
            made.graph.node.append(helper.make_node(op, [a], [b], **values))
        # LeakyRelu needs something negative to act on.
        made.graph.node[1].op_type = "Log"
        return made

    feeds = {"x": np.linspace(-3, 3, 144, dtype=np.float32).reshape(1, 4, 6, 6)}
    bench = Bench(ORT, ORT, 2.0**-24, 4.0)
    candidate = Candidate.of(build(0.1), build(0.3), feeds, {"x": Link("x", "x"), "y": Link("y", "y")})
    assert bench.shows(candidate) is not None
    smaller = smaller_input(bench, fewer_nodes(bench, candidate))
    assert [n.op_type for n in smaller.network.graph.node] == ["LeakyRelu"]
    assert smaller.size == 1
