"""Limits are checked before memory is taken, and a time limit stops what never ends."""

from __future__ import annotations

import contextlib
import io
import time
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import twinnet
from twinnet.checking.options import Limits
from twinnet.lut.npy import read_array
from twinnet.recording import load_recording
from twinnet.store import read_npz

from .running import start

GIGA = 1 << 30


def header(shape: tuple[int, ...]) -> bytes:
    """A .npy file without its data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_an_archive_that_becomes_too_large(tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    with (
        zipfile.ZipFile(tmp_path / "in.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(header((1200 << 18,)))
        for _ in range(1200):
            file.write(zeros)
    with pytest.raises(twinnet.UsageError, match="would become"):
        read_npz(tmp_path / "in.npz")


@pytest.mark.parametrize("shape", [(1 << 60,), (10**18, 10**18), (5,)])
def test_a_header_that_promises_too_much(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("x.npy", header(shape) + bytes(4))
    (tmp_path / "x.npy").write_bytes(header(shape) + bytes(4))
    with pytest.raises(twinnet.UsageError):
        read_npz(tmp_path / "in.npz")
    with pytest.raises(twinnet.UsageError):
        read_array(tmp_path / "x.npy")
    with pytest.raises(twinnet.UsageError):
        load_recording(tmp_path)


def test_python_objects_in_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.array([{}], object))
    with pytest.raises(twinnet.UsageError, match="Python objects"):
        read_npz(tmp_path / "in.npz")


def test_a_good_archive(tmp_path: Path) -> None:
    arrays = {"x": np.arange(6.0).reshape(2, 3), "deep/name": np.zeros((), np.int8), "none": np.ones((0, 3))}
    np.savez_compressed(tmp_path / "in.npz", **arrays)  # pyright: ignore[reportArgumentType]
    found = read_npz(tmp_path / "in.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert np.array_equal(found[name], array) and found[name].shape == array.shape


def test_samples_and_shapes_that_no_machine_can_hold() -> None:
    net = nn.Conv2d(3, 1, 1)
    with pytest.raises(twinnet.UsageError, match="too many"):
        twinnet.check(net, None, "torch", shapes={"input": (1, 3, 8, 8)}, samples=10**12)
    with pytest.raises(twinnet.UsageError, match="elements"):
        twinnet.check(net, None, "torch", shapes={"input": (1, 3, 10**6, 10**6)})


# -- functions -------------------------------------------------------------------------------------------------------


def with_functions(functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("f0", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


def function(name: str, calls: list[str]) -> onnx.FunctionProto:
    nodes, value = [], "a"
    for number, called in enumerate(calls):
        domain = "own" if called.startswith("f") else ""
        out = "b" if number == len(calls) - 1 else f"t{number}"
        nodes.append(helper.make_node(called, [value], [out], domain=domain))
        value = out
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, opsets)


def load(tmp_path: Path, functions: list[onnx.FunctionProto]) -> None:
    from twinnet.network import load_network

    (tmp_path / "net.onnx").write_bytes(with_functions(functions).SerializeToString())
    load_network(str(tmp_path / "net.onnx"))


def test_functions_that_become_too_many_nodes(tmp_path: Path) -> None:
    bomb = [function(f"f{i}", [f"f{i + 1}"] * 10) for i in range(20)] + [function("f20", ["Relu"])]
    with pytest.raises(twinnet.UsageError, match="nodes"):
        load(tmp_path, bomb)


def test_functions_that_never_end(tmp_path: Path) -> None:
    with pytest.raises(twinnet.UsageError):
        load(tmp_path, [function("f0", ["f1"]), function("f1", ["f0"])])
    deep = [function(f"f{i}", [f"f{i + 1}"]) for i in range(3000)] + [function("f3000", ["Relu"])]
    with pytest.raises(twinnet.UsageError):
        load(tmp_path, deep)


def test_functions_that_are_fine(tmp_path: Path) -> None:
    load(tmp_path, [function("f0", ["f1", "f1"]), function("f1", ["Relu"])])


# -- time ------------------------------------------------------------------------------------------------------------


def endless() -> onnx.ModelProto:
    """A loop of 2**62 turns, which no optimiser can see through."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["still"]),
            helper.make_node("Sin", ["v"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["turns", "yes", "x"], ["y"], body=body)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.array(2**62), "turns"), numpy_helper.from_array(np.array(True), "yes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


RUNS = Limits(time_limit={"run": 1})


@pytest.mark.parametrize("reference", ["onnxruntime?opt=off", "onnx-reference"])
def test_a_loop_that_never_ends(reference: str) -> None:
    begun = time.monotonic()
    found = twinnet.check(endless(), None, "onnxruntime", reference=reference, limits=RUNS)
    assert isinstance(found, twinnet.Result)
    assert found.verdict == "ERROR" and "time limit" in (found.error or "")
    assert time.monotonic() - begun < 60


class Stubborn(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            with contextlib.suppress(Exception):
                x = x + 1


def test_a_module_that_never_ends() -> None:
    def stuck(x: np.ndarray) -> np.ndarray:
        while True:
            pass

    torch.export.export(nn.ReLU(), (torch.ones(1),))  # what is stopped in an import stays half imported
    net = nn.ReLU()
    found = twinnet.check(net, torch.ones(1, 2), stuck, limits=RUNS)
    assert (found.verdict, found.stage) == ("ERROR", "run")
    found = twinnet.check(Stubborn(), torch.ones(1, 2), "torch", limits=Limits(time_limit=1))
    assert (found.verdict, found.accident) == ("ERROR", "time")


def test_a_limit_leaves_a_right_twin_alone() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    found = twinnet.check(net, torch.rand(2, 8), "onnxruntime", limits=Limits(time_limit=120))
    assert found.verdict == "PASS"


@pytest.mark.slow
def test_the_command_ends_what_cannot_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import ctypes, torch\n"
        "def twin(x):\n"
        "    ctypes.CDLL(None).sigsuspend(ctypes.create_string_buffer(b'\\xff' * 128))  # deaf to every signal\n"
        "def relu():\n"
        "    return torch.nn.ReLU(), torch.ones(1, 2)\n"
    )
    words = [
        "check",
        "net.py:relu",
        "--twin",
        "callable:net.py:twin",
        "--time-limit",
        "run=1",
        "--out",
        "run",
    ]
    ended = start(tmp_path, *words)
    out, err = ended.communicate(timeout=120)
    assert ended.returncode == 3 and "time limit" in out + err, out + err
