"""ONNX Runtime: what survives its optimiser, outputs untouched by watching, traces in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import twinnet
from tests.needs import need_engine
from tests.onnx_edit import make_model, save
from twinnet.engines import find_engine
from twinnet.engines.base import Session
from twinnet.errors import EngineError, MissingExtra, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("onnxruntime")


def _chain(depth: int = 10, channels: int = 16) -> onnx.ModelProto:
    """Convolutions with batch norm and ReLU, and a skip connection over each pair."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], {}, "x"
    for i in range(depth):
        inputs = 3 if i == 0 else channels
        weights[f"w{i}"] = (rng.standard_normal((channels, inputs, 3, 3)) / (3 * inputs**0.5)).astype(
            np.float32
        )
        for part, low, high in (("s", 0.5, 1.5), ("b", -0.2, 0.2), ("m", -0.2, 0.2), ("v", 0.5, 1.5)):
            weights[f"{part}{i}"] = rng.uniform(low, high, channels).astype(np.float32)
        nodes += [
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{i}", f"s{i}", f"b{i}", f"m{i}", f"v{i}"], [f"n{i}"]),
            helper.make_node("Relu", [f"n{i}"], [f"r{i}"]),
        ]
        last = f"r{i}"
        if i % 2 and i > 1:
            nodes.append(helper.make_node("Add", [last, f"r{i - 2}"], [f"a{i}"]))
            last = f"a{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    return make_model(nodes, {"x": (1, 3, "h", "w")}, ["y"], weights)


X = {"x": np.random.default_rng(1).standard_normal((1, 3, 48, 40)).astype(np.float32)}


def _open(path: Path, memory: int | None = None, **options: str) -> Session:
    return find_engine("onnxruntime").open(load_network(str(path)), options, None, Job(X, memory=memory))


def _plain(path: Path, level: str = "ORT_ENABLE_ALL") -> np.ndarray:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, X)[0]


def _trace(session: Session) -> dict[str, np.ndarray]:
    return dict(session.trace(X, {s.tensor for s in session.sites}, TraceBuilder()))


def test_what_is_loaded_ahead_shows_the_same(tmp_path: Path) -> None:
    path = save(_chain(), tmp_path / "net.onnx")
    ahead, plain = _open(path), _open(path)
    ahead.load_ahead(X)
    loads = ahead._job.timings["load"]  # type: ignore[attr-defined]
    some = {s.tensor for s in ahead.sites[::3]}
    got, want = (s.trace(X, some, TraceBuilder()) for s in (ahead, plain))
    assert set(got) == set(want) and all(np.array_equal(got[n], want[n]) for n in want)
    assert ahead._job.timings["load"] == loads, "the loaded session serves every watch"  # type: ignore[attr-defined]


def test_what_exceeds_the_memory_is_not_loaded_ahead(tmp_path: Path) -> None:
    path = save(_chain(), tmp_path / "net.onnx")
    session = _open(path, memory=1 << 20)
    session.load_ahead(X)
    want = _trace(_open(path))
    got = _trace(session)
    assert set(got) == set(want) and all(np.array_equal(got[n], want[n]) for n in want)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(_chain(), tmp_path_factory.mktemp("ort") / "net.onnx")


def test_without_optimisation_every_value_is_seen(file: Path) -> None:
    session = _open(file, opt="off")
    nodes = onnx.load(str(file)).graph.node
    assert [s.tensor for s in session.sites] == [o for n in nodes for o in n.output]


@pytest.mark.parametrize("level", ["basic", "extended", "all"])
def test_what_the_optimiser_removed_is_no_site(file: Path, level: str) -> None:
    names = {s.tensor for s in _open(file, opt=level).sites}
    assert "y" in names and "c0" not in names  # convolution and batch norm became one
    assert names < {o for n in onnx.load(str(file)).graph.node for o in n.output}


@pytest.mark.parametrize(
    ("level", "theirs"),
    [
        ("off", "ORT_DISABLE_ALL"),
        ("basic", "ORT_ENABLE_BASIC"),
        ("extended", "ORT_ENABLE_EXTENDED"),
        ("all", "ORT_ENABLE_ALL"),
    ],
)
def test_the_output_is_that_of_plain_onnxruntime(file: Path, level: str, theirs: str) -> None:
    session = _open(file, opt=level)
    want = _plain(file, theirs)
    assert np.array_equal(session.run(X)["y"], want)
    if level != "all":
        assert np.array_equal(_trace(session)["y"], want)  # watching the survivors changes nothing


def test_a_trace_in_many_pieces_equals_one_in_one(file: Path) -> None:
    whole, cut = _open(file, opt="off"), _open(file, memory=1 << 20, opt="off")
    seen, again = _trace(whole), _trace(cut)
    pieces = next(iter(cut._plans.values()))  # type: ignore[attr-defined]
    assert len(pieces) > 2 and len(next(iter(whole._plans.values()))) == 1  # type: ignore[attr-defined]
    assert seen.keys() == again.keys()
    assert all(np.array_equal(seen[n], again[n]) for n in seen)
    assert np.array_equal(again["y"], _plain(file, "ORT_DISABLE_ALL"))


@pytest.mark.parametrize("level", ["basic", "extended"])
def test_pieces_agree_under_optimisation(file: Path, level: str) -> None:
    seen, again = _trace(_open(file, opt=level)), _trace(_open(file, memory=1 << 20, opt=level))
    assert seen.keys() == again.keys()
    for name in seen:
        np.testing.assert_allclose(again[name], seen[name], rtol=1e-5, atol=1e-5)


def test_a_second_sample_runs_the_same_pieces(file: Path) -> None:
    session = _open(file, memory=1 << 20, opt="off")
    first, second = _trace(session), _trace(session)
    assert all(np.array_equal(first[n], second[n]) for n in first)


def test_a_check_with_little_memory_passes(file: Path) -> None:
    found = twinnet.check(str(file), X, "onnxruntime", limits=twinnet.Limits(memory=1 << 20))
    assert isinstance(found, Result) and found.verdict == "PASS" and found.coverage.share > 0.4


def test_weights_in_a_file_of_their_own(tmp_path: Path, file: Path) -> None:
    model = onnx.load(str(file))
    path = tmp_path / "net.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size > 1000
    session = _open(path, opt="off")
    assert np.array_equal(session.run(X)["y"], _plain(file, "ORT_DISABLE_ALL"))
    small = _trace(_open(path, memory=1 << 20, opt="all"))
    np.testing.assert_allclose(small["y"], _plain(file), rtol=1e-5, atol=1e-6)
    found = twinnet.check(str(path), X, f"onnxruntime?opt=off:{file}")
    assert isinstance(found, Result) and found.verdict == "PASS" and found.coverage.share == 1.0


def test_threads_and_config_entries_reach_the_session(file: Path) -> None:
    session = _open(file, **{"threads": "1", "config.session.intra_op.allow_spinning": "0"})
    options: Any = session.runner.session.get_session_options()  # type: ignore[attr-defined]
    assert options.intra_op_num_threads == 1
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


@pytest.mark.parametrize("level", ["off", "all"])
def test_times_of_layers_name_the_tensors_they_make(file: Path, level: str) -> None:
    session = _open(file, opt=level)
    times = session.profile(X, repeats=3).steps
    sites = {s.tensor for s in session.sites}
    convs = [t for t in times if t.op in ("Conv", "FusedConv")]
    assert convs and all(t.tensors and set(t.tensors) <= sites for t in convs), times
    assert sum(t.seconds for t in times) > 0
    if level == "off":
        assert [t.tensors for t in times] == [tuple(n.output) for n in onnx.load(file).graph.node]


def test_what_it_cannot_run_is_an_engine_error(tmp_path: Path) -> None:
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], domain="com.microsoft")
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 48, 40)}, ["y"])
    del model.graph.node[:]
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(EngineError, match="onnxruntime could not load the network") as caught:
        _open(save(model, tmp_path / "odd.onnx"))
    assert "NoSuchOperator" in caught.value.log and caught.value.exit_code == 3


def test_wrong_inputs_are_an_engine_error(file: Path) -> None:
    with pytest.raises(EngineError, match="onnxruntime could not run the network"):
        _open(file).run({"x": np.zeros((1, 4, 8, 8), np.float32)})


def test_a_file_of_another_kind_is_refused(tmp_path: Path, file: Path) -> None:
    junk = tmp_path / "junk.onnx"
    junk.write_bytes(file.read_bytes()[:200])
    with pytest.raises(UsageError):
        find_engine("onnxruntime").open(load_network(str(file)), {}, str(junk), Job(X))


def test_a_missing_engine_names_the_extra() -> None:
    error = MissingExtra("onnxruntime", "onnx")
    assert error.exit_code == 2 and "pip install 'twinnet[onnx]'" in str(error)


@pytest.mark.parametrize("level", ["off", "all"])
def test_values_in_bfloat16_are_seen(tmp_path: Path, level: str) -> None:
    nodes = [
        helper.make_node("Sin", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["narrow"], to=onnx.TensorProto.BFLOAT16),
        helper.make_node("Cast", ["narrow"], ["wide"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Cos", ["wide"], ["y"]),
    ]
    session = _open(
        save(make_model(nodes, {"x": (1, 3, "h", "w")}, ["y"]), tmp_path / "narrow.onnx"), opt=level
    )
    seen = _trace(session)
    bits = np.sin(X["x"]).astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    np.testing.assert_allclose(seen["narrow"].astype(np.float32), rounded, rtol=2.0**-7)
    assert seen["narrow"].dtype.name == "bfloat16"
    np.testing.assert_allclose(seen["y"], np.cos(seen["narrow"].astype(np.float32)), rtol=1e-6, atol=1e-6)


def test_control_flow_is_one_site(tmp_path: Path) -> None:
    def branch(name: str, op: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"{name}_y", onnx.TensorProto.FLOAT, [1, 3, 48, 40])
        return helper.make_graph([helper.make_node(op, ["h"], [f"{name}_y"])], name, [], [out])

    nodes = [
        helper.make_node("Mul", ["x", "two"], ["h"]),
        helper.make_node("ReduceSum", ["h"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["cond"]),
        helper.make_node(
            "If", ["cond"], ["i"], then_branch=branch("t", "Sigmoid"), else_branch=branch("e", "Tanh")
        ),
        helper.make_node("Neg", ["i"], ["y"]),
    ]
    weights = {"two": np.float32([2]), "zero": np.array(0, np.float32)}
    path = save(make_model(nodes, {"x": (1, 3, 48, 40)}, ["y"], weights), tmp_path / "if.onnx")
    found = twinnet.check(str(path), X, "onnxruntime")
    assert isinstance(found, Result) and found.verdict == "PASS", found
    whole = twinnet.check(str(path), X, "onnxruntime?opt=off", limits=twinnet.Limits(memory=1 << 20))
    assert isinstance(whole, Result) and whole.verdict == "PASS"
    assert [p.site.tensor for p in whole.pairs] == ["h", "s", "cond", "i", "y"]
    assert {p.site.tensor: p.status for p in whole.pairs}["i"] == "pass"
