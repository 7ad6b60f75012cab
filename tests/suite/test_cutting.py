"""Layers of each format: listed, cut out with real values, run alone, and recognised when they are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx_edit import make_model, save
from tests.suite.project import small_net
from twinnet.suite.config import Config, EngineSet, ModelSettings
from twinnet.suite.models import Model, find_models
from twinnet.suite.outcome import Case
from twinnet.suite.run import run_case
from twinnet.suite.subject import Subject

CODE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.load_state_dict(self.first.state_dict())

    def forward(self, x):
        x = self.second(torch.tanh(self.first(x)))
        a, b = x.chunk(2, dim=1)
        values, _ = torch.max(torch.cat([a * torch.sigmoid(b), b], 1), 1)
        return values

def build():
    torch.manual_seed(0)
    return Net(), torch.randn(4, 8)
"""


def _subject(path: Path, *engines: str, **settings: object) -> Subject:
    sets = tuple(EngineSet(spec) for spec in engines or ("onnxruntime",))
    known = {"*": ModelSettings(**settings)} if settings else {}  # type: ignore[arg-type]
    config = Config(path.parent, (path.parent,), sets, settings=known)
    return Subject(Model(path.name.removesuffix(path.suffix), path), config)


def _case(subject: Subject, layer: str = "") -> Case:
    one = subject.config.engines[0]
    return Case(subject.model.name, one.engine, one.options, one.spec, layer)


def test_a_shape_chain_is_folded_into_the_layer_that_reads_it(tmp_path: Path) -> None:
    subject = _subject(save(small_net(), tmp_path / "net.onnx"))
    cut = subject.cut("Reshape_3")
    model = onnx.load_from_string(cut.data)
    assert [n.op_type for n in model.graph.node] == ["Reshape"] and list(cut.sample) == ["r2"]
    assert [i.name for i in model.graph.input] == ["r2"]
    (to,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(to), [1, -1])
    assert subject.captured.like("Relu_1") == ("Relu_1", "Relu_2")


@pytest.mark.parametrize(
    "other",
    [
        {"slope": 0.2},
        {"weight": 1},
        {"size": 5},
    ],
)
def test_another_attribute_weight_or_shape_is_another_layer(tmp_path: Path, other: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    weights = {"a": rng.standard_normal((4, 4)).astype(np.float32)}
    weights["b"] = weights["a"].copy()
    weights["b"][0, 0] += other.get("weight", 0)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("LeakyRelu", ["p"], ["q"], alpha=0.1),
        helper.make_node("MatMul", ["z", "b"], ["r"]),
        helper.make_node("LeakyRelu", ["r"], ["s"], alpha=other.get("slope", 0.1)),
    ]
    inputs: dict[str, tuple[int | str, ...]] = {"x": (3, 4), "z": (int(other.get("size", 3)), 4)}
    subject = _subject(save(make_model(nodes, inputs, ["q", "s"], weights), tmp_path / "net.onnx"))
    same = subject.captured.same
    assert (same["MatMul_0"] == same["MatMul_2"]) == ("slope" in other)
    assert (same["LeakyRelu_1"] == same["LeakyRelu_3"]) == ("weight" in other)


def test_random_values_stay_in_the_range_of_the_real_ones(tmp_path: Path) -> None:
    from dataclasses import replace

    subject = _subject(save(small_net(), tmp_path / "net.onnx"))
    case = replace(_case(subject, "MatMul_4"), random=True)
    outcome = run_case(case, subject, tmp_path / "run")
    assert outcome.verdict == "PASS", outcome
    real = subject.cut("MatMul_4").sample["flat"]
    assert real.min() == 0  # after a ReLU


def test_python_models(tmp_path: Path) -> None:
    (tmp_path / "net_model.py").write_text(CODE)
    subject = _subject(tmp_path / "net_model.py", "torch?dtype=float64")
    names = [layer.name for layer in subject.layers()]
    kinds = [name.rpartition("_")[0] for name in names]
    assert kinds[1] == "tanh" and kinds[-4:] == ["sigmoid", "mul", "cat", "max"], names
    same = subject.captured
    assert not same.alone, same.alone
    linear = [n for n in names if n.startswith(("addmm", "linear"))]
    assert same.like(linear[0]) == tuple(linear), "equal weights, other activations"
    for name in names:
        outcome = run_case(_case(subject, name), subject, tmp_path / "runs" / name)
        assert outcome.verdict == "PASS", (name, outcome)
        said = (tmp_path / "runs" / name / "result.json").read_text()
        assert "training_mode" not in said, "the whole module is in eval mode"
    before = subject.content
    (tmp_path / "net_model.py").write_text(CODE.replace("manual_seed(0)", "manual_seed(1)"))
    assert _subject(tmp_path / "net_model.py").content != before


@pytest.mark.slow
def test_tflite_models(tmp_path: Path) -> None:
    from tests.needs import need_engine
    from tests.tflite_nets import small_tflite

    need_engine("litert")
    (tmp_path / "net.tflite").write_bytes(small_tflite().data)
    subject = _subject(tmp_path / "net.tflite", "litert")
    names = [layer.name for layer in subject.layers()]
    assert set(subject.captured.same) == set(names)
    convolution = next(n for n in names if n.startswith("CONV_2D"))
    outcome = run_case(_case(subject, convolution), subject, tmp_path / "run")
    assert outcome.verdict == "PASS", outcome


def test_names_of_models_are_unique(tmp_path: Path) -> None:
    for place in (
        "a/net.onnx",
        "b/net.onnx",
        "b/net.tflite",
        "b/only_model.py",
        "b/.hidden.onnx",
        "b/notes.txt",
    ):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch()
    assert [m.name for m in find_models([tmp_path])] == [
        "a-net.onnx",
        "b-net.onnx",
        "b-net.tflite",
        "only_model",
    ]


def test_what_a_file_calls_its_operators_is_no_path(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    strange = "../../../out"
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", strange, ["a"], ["b"], body, opsets[:1])
    value = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 2]) for n in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node(strange, ["x"], ["y"], domain="own")], "g", value[:1], value[1:]
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    model.ir_version = 9
    subject = _subject(save(model, tmp_path / "net.onnx"))
    (layer,) = subject.layers()
    name = _case(subject, layer.name).name
    assert "/" not in name and name.startswith("net_layer_..-..-..-out_0")
    outcome = run_case(_case(subject, layer.name), subject, tmp_path / "runs" / name)
    assert outcome.verdict in ("PASS", "ERROR", "SKIP") and not (tmp_path / "out").exists()
