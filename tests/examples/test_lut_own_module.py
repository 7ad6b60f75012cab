"""The example of a network of one's own: it trains, exports, stays close, and is fine-tuned as a table."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from twinnet import lut

HOME = Path(__file__).parents[2] / "examples" / "lut_own_module" / "network.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("lut_own_module", HOME)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns_and_its_table_follows(example):
    net = example.build()
    first, last = example.train(net, 150)
    assert last < 0.8 * first
    x = torch.rand(1, 1, 20, 20)
    with torch.no_grad():
        network = net(x)
        table = lut.export(net)(x)
        assert not torch.equal(network, table)
        assert (network - table).abs().mean() < 0.01
        lut.use(net, "network")
        assert torch.equal(net(x), network)
    lut.use(net, "table")
    first, last = example.train(net, 40)
    assert net.correct.table.grad.abs().sum() > 0
    assert last < 1.5 * first


def test_a_wrong_entry_shows(example):
    net = lut.export(example.build())
    x = torch.full((1, 1, 4, 4), 0.5)
    with torch.no_grad():
        before = net(x)
        net.correct.table.add_(0.1)
        assert (net(x) - before).abs().min() > 0.01


def test_it_exports_to_onnx_like_any_module(example, tmp_path):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    net = lut.export(example.build())
    x = torch.rand(1, 1, 8, 9)
    program = torch.onnx.export(net, (x,), dynamo=True, verbose=False)
    program.save(tmp_path / "own.onnx")
    session = ort.InferenceSession(tmp_path / "own.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    # The table is exact; the convolution before it is float arithmetic in another order.
    assert np.abs(found - net(x).detach().numpy()).max() < 1e-5


def test_it_runs_as_a_script(example, capsys):
    example.train.__defaults__ = (5,)
    example.main()
    assert "bytes of int8" in capsys.readouterr().out
