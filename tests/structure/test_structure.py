"""Static comparison: known differences are named with both values, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import twinnet
from tests.models import model_path
from twinnet.demo.fault import plant_padding_fault
from twinnet.errors import UsageError
from twinnet.inputs import load_inputs
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.onnx.export import onnx_artefact
from twinnet.structure import StructureDiff, diff

DEMO = "twinnet.demo.network:build"


@pytest.fixture(scope="session")
def files(shared_folder: Path) -> Path:
    """The demo network as ONNX, healthy and with a planted padding."""
    folder = shared_folder / "structure"
    folder.mkdir()
    network = load_network(DEMO)
    sample = load_inputs(network.signature).samples[0]
    onnx.save(onnx_artefact(network, None, Job(sample)).model, str(folder / "healthy.onnx"))
    plant_padding_fault(network, sample, folder / "faulty.onnx")
    return folder


def sentences(found: StructureDiff) -> list[str]:
    return [c.sentence for c in found.changes]


def test_a_module_and_what_it_exports_to_are_the_same(files: Path) -> None:
    found = diff(DEMO, str(files / "healthy.onnx"))
    assert found.same, sentences(found)
    assert found.exit_code == 0
    assert repr(found).splitlines()[3].startswith("SAME")


def test_one_attribute_across_formats(files: Path) -> None:
    found = diff(DEMO, str(files / "faulty.onnx"))
    assert sentences(found) == ["blocks.4.depthwise.0 conv: pads is (1, 1, 1, 1) in A, (0, 0, 2, 2) in B"]
    assert found.changes[0].kind == "attribute"
    assert found.exit_code == 1


def test_one_channel_of_one_weight(tmp_path: Path) -> None:
    path = model_path("ppocr-cls")
    model = onnx.load(str(path))
    # This file keeps its weights in Constant nodes.
    held = [n.attribute[0].t for n in model.graph.node if n.op_type == "Constant"]
    tensor = max(held, key=lambda t: len(t.dims) == 4 and np.prod(t.dims))
    weight = numpy_helper.to_array(tensor).copy()
    weight[5] *= 1.5
    largest = float(np.abs(weight[5]).max()) / 3
    tensor.CopyFrom(numpy_helper.from_array(weight, tensor.name))
    onnx.save(model, str(tmp_path / "b.onnx"))
    found = diff(str(path), str(tmp_path / "b.onnx"))
    (change,) = found.changes
    assert change.kind == "weight"
    assert f"by up to {largest:.3g} " in change.sentence
    assert f"all at index 5 of axis 0 (1 of {weight.shape[0]})" in change.sentence
    assert json.loads(found.to_json())["same"] is False
    assert diff(str(path), str(path)).same


def net(*layers: nn.Module, width: int = 8) -> tuple[nn.Module, torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = nn.Sequential(nn.Linear(4, width), *layers, nn.Linear(width, 3))
        for module in made.modules():
            if isinstance(module, nn.Linear):
                nn.init.constant_(module.bias, 0.5)
                nn.init.constant_(module.weight, 0.25)
    return made.eval(), torch.ones(2, 4)


def test_a_replaced_layer() -> None:
    assert sentences(diff(net(nn.ReLU()), net(nn.GELU()))) == ["1: A has relu, B has gelu"]


def test_an_added_layer_does_not_hide_the_rest() -> None:
    found = diff(net(nn.ReLU()), net(nn.ReLU(), nn.Tanh()))
    assert [(c.kind, c.b) for c in found.changes] == [("only in B", "tanh")]
    assert found.matched == 3


def test_other_widths_and_outputs() -> None:
    found = diff(net(width=8), net(width=6))
    assert any("weight is 8x4 in A, 6x4 in B" in s for s in sentences(found))


def test_inputs_and_outputs_are_compared() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + y, x - y

    found = diff((nn.ReLU(), torch.ones(2, 4)), (Two(), (torch.ones(2, 4), torch.ones(2, 4))))
    kinds = {c.kind for c in found.changes}
    assert {"input", "output"} <= kinds


def test_a_batch_norm_counts_even_where_it_is_folded() -> None:
    """Other statistics are other weights, whether or not the files fold them."""
    first, x = net(nn.BatchNorm1d(8))
    second, _ = net(nn.BatchNorm1d(8))
    assert diff((first, x), (second, x)).same
    second[1].running_mean[2] = 0.5  # type: ignore[index]
    assert "mean" in sentences(diff((first, x), (second, x)))[0]


def test_an_unreadable_side(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"no network")
    with pytest.raises(UsageError):
        diff(str(tmp_path / "a.onnx"), DEMO)


def test_a_check_of_two_networks_says_what_differs(tmp_path: Path) -> None:
    """Not the same network: no numbers are compared, the weights are named."""
    small, x = net(width=6)
    network = load_network(small, example=x)
    onnx.save(
        onnx_artefact(network, None, Job(load_inputs(network.signature).samples[0])).model,
        str(tmp_path / "b.onnx"),
    )
    result = twinnet.check(net(width=8), twin=f"onnxruntime:{tmp_path / 'b.onnx'}")
    assert result.verdict == "ERROR"
    assert "not the same network" in result.error
    assert "8x4 in A, 6x4 in B" in result.error


def test_a_check_against_a_file_with_other_inputs_says_so(tmp_path: Path) -> None:
    other = nn.Sequential(nn.Linear(5, 3)).eval()
    network = load_network(other, example=torch.ones(2, 5))
    onnx.save(
        onnx_artefact(network, None, Job(load_inputs(network.signature).samples[0])).model,
        str(tmp_path / "b.onnx"),
    )
    result = twinnet.check(net(), twin=f"onnxruntime:{tmp_path / 'b.onnx'}")
    assert result.verdict == "ERROR"
    assert "is 2x4, the twin takes 2x5" in result.error
