"""References to networks: factories, files known by content, and everything that is not a network."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import onnx
import pytest
import torch
from onnx import parser

from twinnet.errors import UsageError
from twinnet.network import ExportedNetwork, TorchNetwork, load_network
from twinnet.onnx.network import OnnxNetwork

RELU = '<ir_version: 10, opset_import: ["": 20]> g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }'


def relu_model() -> onnx.ModelProto:
    return parser.parse_model(RELU)


FACTORIES = """
import torch
from torch import nn

def plain(): return nn.Linear(2, 3)
def with_tensor(): return nn.Linear(2, 3), torch.ones(1, 2)
def with_tuple(): return nn.Bilinear(2, 3, 4), (torch.ones(1, 2), torch.ones(1, 3))
def with_kwargs(): return nn.Linear(2, 3), {"input": torch.ones(1, 2)}
def with_both(): return nn.Bilinear(2, 3, 4), ((torch.ones(1, 2),), {"input2": torch.ones(1, 3)})
ready = nn.Linear(2, 3)
class Net(nn.Linear):
    def __init__(self): super().__init__(2, 3)
def nothing(): pass
def number(): return 3
def pair(): return 1, 2
def raises(): raise FileNotFoundError("weights.pt is not here")
def needs(size): return nn.Linear(size, 2)
"""


@pytest.fixture
def factories(tmp_path):
    path = tmp_path / "detector.py"
    path.write_text(FACTORIES)
    return path


@pytest.mark.parametrize(
    ("factory", "inputs"),
    [
        ("plain", ["input: float32 ?"]),
        ("with_tensor", ["input: float32 1x2"]),
        ("with_tuple", ["input1: float32 1x2", "input2: float32 1x3"]),
        ("with_kwargs", ["input: float32 1x2"]),
        ("with_both", ["input1: float32 1x2", "input2: float32 1x3"]),
        ("ready", ["input: float32 ?"]),
        ("Net", ["input: float32 ?"]),
    ],
)
def test_factories(factories, factory, inputs):
    net = load_network(f"{factories}:{factory}")
    assert isinstance(net, TorchNetwork)
    assert [str(s) for s in net.signature.inputs] == inputs
    assert net.name == f"detector.{factory}"
    assert net.format == "PyTorch" and net.path == factories


def test_a_factory_of_an_installed_module():
    net = load_network("torch.nn:Identity")
    assert net.name == "nn.Identity" and net.parameters == 0


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("nothing", "returned nothing"),
        ("number", "returned an int, not a network"),
        ("pair", "returned a tuple of int, int"),
        ("raises", r"detector\.py:16: factory raises\(\) raised FileNotFoundError: weights\.pt is not here"),
        ("needs", r"needs arguments \(size\)"),
        ("plian", "did you mean plain"),
    ],
)
def test_factories_that_make_no_network(factories, factory, words):
    with pytest.raises(UsageError, match=words):
        load_network(f"{factories}:{factory}")


def test_python_without_a_factory_asks_for_one(factories):
    with pytest.raises(UsageError, match="name the factory"):
        load_network(factories)


def test_files_are_known_by_content_not_by_name(tmp_path):
    onnx.save(relu_model(), tmp_path / "model.bin")
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
    torch.export.save(program, tmp_path / "model.pt2")
    (tmp_path / "model.pt2").rename(tmp_path / "model.onnx")
    assert isinstance(load_network(tmp_path / "model.bin"), OnnxNetwork)
    assert isinstance(load_network(tmp_path / "model.onnx"), ExportedNetwork)
    assert load_network(tmp_path / "model.bin").name == "model"


def test_an_existing_path_with_a_colon_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(relu_model(), tmp_path / "net:v2.onnx")
    onnx.save(relu_model(), tmp_path / "net.py:build")
    assert load_network("net:v2.onnx").format == "ONNX"
    assert load_network("net.py:build").format == "ONNX"


def test_objects():
    assert load_network(relu_model()).format == "ONNX"
    assert load_network(torch.export.export(torch.nn.ReLU(), (torch.ones(1),))).format == "exported program"
    net = load_network(torch.nn.ReLU(), example=torch.ones(3), name="mine")
    assert net.name == "mine" and net.signature.inputs[0].shape == (3,)
    assert load_network(net) is net
    with pytest.raises(UsageError, match="a list is not a network"):
        load_network([1])


def _zip(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return buffer.getvalue()


def _saved(save) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"hello, this is a model card\n", "a text file"),
        (POINTER, "Git LFS pointer"),
        (b"\n<!DOCTYPE html><html><body>Sign in</body></html>", "an HTML page"),
        (b'{"error": "not found"}', "a JSON file"),
        (b"\0" * 5000, "zero bytes"),
        (b"\x1c\0\0\0TFL3" + b"\0" * 64, "is damaged"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "a PNG image"),
        (pickle.dumps({"a": 1}), "a pickle, which is never loaded"),
        (_saved(lambda f: torch.save({"w": torch.ones(2)}, f)), "a PyTorch checkpoint"),
        (_saved(lambda f: np.savez(f, x=np.ones(2))), "a NumPy archive"),
        (_saved(lambda f: np.save(f, np.ones(2))), "a NumPy array"),
        (_zip(a__b=b"x"), "a zip archive"),
        (_zip(a__b=b"x" * 500)[:300], "a truncated or damaged archive"),
    ],
)
@pytest.mark.parametrize("name", ["model.onnx", "model.pt2", "model"])
def test_what_is_not_a_network_is_named(tmp_path, content, words, name):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        load_network(path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="no such network"):
        load_network(tmp_path / "missing.onnx")
    with pytest.raises(UsageError, match="is a folder"):
        load_network(tmp_path)


def test_a_factory_that_needs_arguments_or_returns_weights(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def build(width, *, depth, bias=True): return torch.nn.Linear(width, depth, bias)\n"
        "def weights(): return torch.nn.Linear(2, 2).state_dict()\n"
    )
    with pytest.raises(UsageError, match=r"mine.py:build needs arguments \(width, depth\)") as caught:
        load_network(f"{tmp_path}/mine.py:build")
    assert "give them defaults" in str(caught.value.hint) and "build(...)" in str(caught.value.hint)
    with pytest.raises(
        UsageError, match=r"returned an OrderedDict of weights, not a network\n.*load_state_dict"
    ):
        load_network(f"{tmp_path}/mine.py:weights")


def test_a_pickled_network_is_told_from_weights(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    torch.save(module, tmp_path / "whole.pt")
    torch.save({"model": module.state_dict(), "epoch": 3}, tmp_path / "weights.pt")
    with pytest.raises(UsageError, match=r"a whole network pickled by torch.save.*weights_only=False"):
        load_network(tmp_path / "whole.pt")
    with pytest.raises(UsageError, match="weights without a network"):
        load_network(tmp_path / "weights.pt")
