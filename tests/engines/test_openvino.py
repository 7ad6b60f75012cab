"""OpenVINO: what survives its fusions, outputs untouched by watching, faults named, nothing sent anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import twinnet
from tests.engines.planted import FAULTS, Fault, as_onnx, network
from tests.models import MODELS, model_path
from tests.needs import need_engine
from tests.onnx_edit import make_model, save
from twinnet.engines import find_engine
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("openvino")


def _check(net: object, inputs: object, twin: str = "openvino", **options: object) -> Result:
    found = twinnet.check(net, inputs, twin, **options)
    assert isinstance(found, Result)
    return found


def _open(path: Path, inputs: dict[str, np.ndarray], memory: int | None = None, **options: str) -> Session:
    return find_engine("openvino").open(load_network(str(path)), options, None, Job(inputs, memory=memory))


def _trace(session: Session, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(session.trace(inputs, {s.tensor for s in session.sites}, TraceBuilder()))


X = {"x": np.random.default_rng(1).standard_normal((1, 3, 16, 12)).astype(np.float32)}


def _conv_relu(size: tuple[int | str, ...] = (1, 3, 16, 12)) -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceMean", ["p"], ["m"], name="mean", axes=[2, 3]),
    ]
    return make_model(nodes, {"x": size}, ["m"], {"w": weight}, opset=13)


# -- agreement -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mbconv", "transformer", "unet", "norms", "lstm", "functional"])
def test_networks_pass_within_the_noise_floor(name: str) -> None:
    module, args = network(name)
    found = _check(module, args)
    assert found.verdict == "PASS" and found.evidence == "strong", found
    assert max(p.ratio or 0.0 for p in found.pairs) < 1.5
    assert found.twin.engine == "openvino" and found.twin.precision == "float32"
    assert not [g for g in found.guards if g.name == "observer effect"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_planted_fault_is_named_at_its_layer(fault: Fault, tmp_path: Path) -> None:
    module, args = network(fault.net)
    found = _check(module, args, f"openvino:{fault.file(tmp_path)}")
    assert found.verdict == "FAIL" and len(found.findings) == 1, found
    finding = found.findings[0]
    assert len(finding.segment) <= 3 and any(label.startswith(fault.module) for label in finding.segment)
    if finding.cause is not None:
        assert finding.cause.kind == fault.kind
    else:
        assert fault.name == "one-channel"  # behind the SiLU that OpenVINO fuses it with


@pytest.mark.parametrize(
    "name",
    [
        "magika",
        "vad-openvino",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("ppocr-cls", "orientation", "vad-sequence")),
    ],
)
def test_real_networks_agree(name: str) -> None:
    found = _check(str(model_path(name)), MODELS[name].inputs())
    assert found.verdict == "PASS" and found.coverage.judged > 15, found


def test_a_network_that_converts_only_with_fixed_sizes() -> None:
    found = _check(str(model_path("vad-half")), MODELS["vad-half"].inputs(), "openvino?shapes=static")
    assert found.verdict == "PASS" and found.coverage.judged > 10, found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppocr-det", "ppocr-rec", "basic-pitch"])
def test_larger_real_networks_agree(name: str) -> None:
    found = _check(str(model_path(name)), MODELS[name].inputs())
    assert found.verdict == "PASS" and found.coverage.judged > 80, found


@pytest.mark.slow
def test_what_it_does_not_convert_is_an_error_with_its_words_and_a_small_network(tmp_path: Path) -> None:
    found = _check(str(model_path("vad-half")), MODELS["vad-half"].inputs(), out=tmp_path / "run")
    assert found.verdict == "ERROR" and found.stage == "load the network"
    assert "rank has to be known" in found.error and "ReduceMean-16" in found.error
    assert "openvino?shapes=static" in found.error
    assert "Unsupported input type" in found.log
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.kind == "error" and made.confirmed and made.nodes <= 12, made
    assert "openvino" in (tmp_path / "repro" / "repro.py").read_text()


# -- what is seen --------------------------------------------------------------------------------------------------


def test_fused_tensors_are_no_sites_and_watching_the_rest_changes_nothing(tmp_path: Path) -> None:
    path = save(_conv_relu(), tmp_path / "net.onnx")
    session = _open(path, X)
    assert [s.tensor for s in session.sites] == ["r", "p", "m"]  # the convolution ends with its ReLU
    seen = _trace(session, X)
    assert np.array_equal(seen["m"], session.run(X)["m"])
    assert seen["r"].min() == 0 and seen["r"].shape == (1, 8, 16, 12)


def test_a_trace_in_pieces_agrees_with_one_in_one(tmp_path: Path) -> None:
    path = save(as_onnx("mbconv"), tmp_path / "net.onnx")
    _, args = network("mbconv")
    image = np.tile(args[0].numpy(), (1, 1, 4, 4))
    model = as_onnx("mbconv")
    del model.graph.value_info[:]
    model.graph.input[0].CopyFrom(
        helper.make_tensor_value_info("image", TensorProto.FLOAT, list(image.shape))
    )
    path = save(model, tmp_path / "net.onnx")
    whole, cut = _open(path, {"image": image}), _open(path, {"image": image}, memory=1 << 20)
    seen, again = _trace(whole, {"image": image}), _trace(cut, {"image": image})
    assert len(next(iter(cut._plans.values()))) > 2  # type: ignore[attr-defined]
    assert seen.keys() == again.keys()
    for name in seen:
        np.testing.assert_allclose(again[name], seen[name], rtol=1e-4, atol=1e-5)


def test_times_of_layers_name_what_was_fused(tmp_path: Path) -> None:
    path = save(_conv_relu(), tmp_path / "net.onnx")
    times = _open(path, X).profile(X, repeats=3).steps
    conv = next(t for t in times if t.op == "Convolution")
    assert conv.tensors == ("c", "r") and conv.kernel
    assert all(t.seconds >= 0 for t in times) and sum(t.seconds for t in times) > 0


# -- what it could trip over ---------------------------------------------------------------------------------------


def test_constant_outputs_and_inputs_passed_through(tmp_path: Path) -> None:
    model = _conv_relu()
    model.graph.node.append(
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([1, 2])))
    )
    model.graph.node.append(helper.make_node("Neg", ["k"], ["folded"]))
    model.graph.node.append(helper.make_node("Identity", ["r"], ["same"]))
    shapes = {"folded": [2], "same": [1, 8, 16, 12], "x": [1, 3, 16, 12], "w": [8, 3, 3, 3]}
    for name, shape in shapes.items():
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    path = save(model, tmp_path / "net.onnx")
    session = _open(path, X)
    outputs = session.run(X)
    assert list(outputs) == ["m", "folded", "same", "x", "w"]
    assert outputs["folded"].tolist() == [-1, -2] and np.array_equal(outputs["x"], X["x"])
    seen = _trace(session, X)
    assert np.array_equal(seen["same"], outputs["same"]) and np.array_equal(seen["m"], outputs["m"])


def test_dynamic_shapes_run_as_written_and_static(tmp_path: Path) -> None:
    path = save(_conv_relu(("n", 3, "h", "w")), tmp_path / "net.onnx")
    want = _open(path, X).run(X)["m"]
    np.testing.assert_allclose(_open(path, X, shapes="static").run(X)["m"], want, rtol=1e-5)
    larger = {"x": np.ones((2, 3, 20, 18), np.float32)}
    assert _open(path, X).run(larger)["m"].shape == (2, 8, 1, 1)
    for twin in ("openvino", "openvino?shapes=static"):
        assert _check(str(path), X, twin).verdict == "PASS"
    with pytest.raises(EngineError, match="openvino could not run the network"):
        _open(path, X, shapes="static").run(larger)


def _double() -> onnx.ModelProto:
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Div", ["e", "three"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [64])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [64])],
        [numpy_helper.from_array(np.float64([3]), "three")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_float64_is_computed_and_judged_in_float32(tmp_path: Path) -> None:
    path = save(_double(), tmp_path / "net.onnx")
    found = _check(str(path), {"x": np.linspace(-2, 2, 64)})
    assert found.verdict == "PASS" and found.twin.precision == "float32", found
    assert any("float64" in g.message and g.name == "note" for g in found.guards)


def test_large_integers_are_a_finding(tmp_path: Path) -> None:
    """The CPU plugin computes int64 in int32: a real difference, and reported as one."""
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Mul", ["i", "big"], ["y"]),
    ]
    model = make_model(nodes, {"x": (8,)}, ["y"], {"big": np.int64([3_000_000_000])})
    found = _check(str(save(model, tmp_path / "net.onnx")), {"x": np.arange(8, dtype=np.float32)})
    assert found.verdict == "FAIL" and found.findings[0].site.tensor == "y", found


def test_one_half_of_a_spectrum_has_an_axis_too_many(tmp_path: Path) -> None:
    """A one-sided DFT of real numbers keeps the axis of size 1 that says so; what comes next broadcasts it."""
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"], onesided=1)
    path = save(
        make_model([node], {"x": (1, 8, 1)}, ["y"], {"axis": np.array(1)}, opset=20), tmp_path / "dft.onnx"
    )
    found = _check(str(path), {"x": np.random.default_rng(0).standard_normal((1, 8, 1)).astype(np.float32)})
    assert found.verdict == "FAIL" and "1x5x1x2" in str(found.outputs[0].reason), found


def _bfloat16_ends_the_process() -> bool:
    """Whether this machine announces instructions that it does not have."""
    code = """
import numpy, torch, openvino
net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3)).eval()
made = openvino.convert_model(net, example_input=torch.zeros(1, 3, 32, 32))
made = openvino.Core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
made(numpy.zeros((1, 3, 32, 32), numpy.float32))
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode < 0


def test_bfloat16_is_judged_at_its_own_precision() -> None:
    module, args = network("transformer")
    found = _check(module, args, "openvino?precision=bf16")
    if _bfloat16_ends_the_process():
        assert found.verdict == "ERROR" and "could not run in bf16 on this machine" in str(found.error)
        assert "ONEDNN_MAX_CPU_ISA" in str(found.error)
        return
    assert found.verdict == "PASS", found
    if found.twin.precision == "float32":  # a processor without bfloat16: that is said, and judged by
        assert any("computes in f32 on this processor" in g.message for g in found.guards)
        return
    assert found.twin.precision == "bfloat16", found
    worst = max(p.difference.max_abs for p in found.outputs)
    assert worst > 1e-3  # far more than float32 rounds


def test_threads_and_properties_reach_the_plugin(tmp_path: Path) -> None:
    path = save(_conv_relu(), tmp_path / "net.onnx")
    session = _open(path, X, **{"threads": "1", "config.CPU_DENORMALS_OPTIMIZATION": "YES"})
    compiled = session.runner.compiled  # type: ignore[attr-defined]
    assert compiled.get_property("INFERENCE_NUM_THREADS") == 1
    assert compiled.get_property("CPU_DENORMALS_OPTIMIZATION") is True
    with pytest.raises(EngineError, match="NO_SUCH_PROPERTY"):
        _open(path, X, **{"config.NO_SUCH_PROPERTY": "1"})
    with pytest.raises(UsageError, match="unknown value 'int3' for precision"):
        _open(path, X, precision="int3")


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    plain = save(_conv_relu(), tmp_path / "plain.onnx")
    path = tmp_path / "net.onnx"
    onnx.save(
        onnx.load(str(plain)), str(path), save_as_external_data=True, location="w.bin", size_threshold=0
    )
    want = _open(plain, X).run(X)["m"]
    session = _open(path, X, memory=1)
    assert np.array_equal(session.run(X)["m"], want)
    assert np.array_equal(_trace(session, X)["m"], want)


_QUIET = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") else None)
import torch, twinnet
found = twinnet.check(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), torch.randn(2, 8), "openvino")
print(json.dumps([found.verdict, sorted(set(opened)), sys.modules.get("openvino_telemetry") is None]))
"""


def test_nothing_is_sent_and_nothing_written_at_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    keep = {k: v for k, v in os.environ.items() if k != "CI"}
    done = subprocess.run(
        [sys.executable, "-c", _QUIET],
        capture_output=True,
        text=True,
        timeout=300,
        env={**keep, "HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    verdict, opened, silent = json.loads(done.stdout.splitlines()[-1])
    assert verdict == "PASS" and silent
    assert [e for e in opened if e in ("socket.connect", "socket.getaddrinfo", "socket.sendto")] == []
    assert list(home.rglob("*")) == []


def test_it_leaves_the_numbers_of_this_process_alone(tmp_path: Path) -> None:
    """Asked to, OpenVINO makes the thread that calls it flush subnormal numbers to zero, and leaves it so."""
    from twinnet.engines.floats import flushing

    path = save(_conv_relu(), tmp_path / "net.onnx")
    session = _open(path, X, **{"config.CPU_DENORMALS_OPTIMIZATION": "YES"})
    session.run(X)
    _trace(session, X)
    assert not flushing()
    torch.set_flush_denormal(True)
    try:
        session.run(X)
        assert flushing()  # whoever wants it keeps it
    finally:
        torch.set_flush_denormal(False)


_INTERRUPTED = """
import gc, os, signal, sys, threading, numpy
from twinnet.engines import find_engine
from twinnet.job import Job
from twinnet.network import load_network

signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background inherits that it is ignored
x = {"x": numpy.ones((1, 3, 16, 12), numpy.float32)}
sessions = [find_engine("openvino").open(load_network(sys.argv[1]), {}, None, Job(x))]
sessions[0].run(x)
elsewhere = threading.Thread(target=lambda: (sessions.clear(), gc.collect()))
elsewhere.start()
elsewhere.join()
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_is_no_crash_when_a_session_went_in_another_thread(tmp_path: Path) -> None:
    path = save(_conv_relu(), tmp_path / "net.onnx")
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_data_rounded_where_only_weights_should_be(tmp_path: Path) -> None:
    """OpenVINO does so where the processor has VNNI, unless told otherwise."""
    import openvino

    rng = np.random.default_rng(0)
    weights = {"w": rng.integers(-127, 128, (64, 96)).astype(np.int8), "s": np.float32(0.01)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["wide"]),
        helper.make_node("MatMul", ["x", "wide"], ["y"], name="product"),
    ]
    path = save(make_model(nodes, {"x": (1, 40, 64)}, ["y"], weights), tmp_path / "net.onnx")
    x = rng.standard_normal((1, 40, 64)).astype(np.float32)
    alone = openvino.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    off = np.abs(alone - x.astype(np.float64) @ (weights["w"] * np.float64(weights["s"]))).max()
    found = twinnet.check(str(path), {"x": x}, "openvino", keep="none")
    if off > 1e-3:
        assert found.verdict == "FAIL"
        (finding,) = found.findings
        assert finding.cause is not None and finding.cause.explains > 0.99
        assert "rounds the data to 8 bits in blocks of 32" in finding.cause.sentence
    else:
        assert found.verdict == "PASS"
    told = "openvino?config.DYNAMIC_QUANTIZATION_GROUP_SIZE=0"
    assert twinnet.check(str(path), {"x": x}, told, keep="none").verdict == "PASS"
