"""Any module a person has gets an answer: odd signatures, odd outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import numpy_helper
from torch import nn

import twinnet
from tests.onnx_edit import save
from twinnet.job import Job
from twinnet.network.torch_network import TorchNetwork
from twinnet.onnx.export import onnx_artefact

PICTURE = torch.linspace(-1, 1, 3 * 8 * 8).reshape(1, 3, 8, 8).sin()


class _Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("table", torch.arange(5.0))
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.eval()


class StarArgs(_Base):
    def forward(self, *images: torch.Tensor) -> torch.Tensor:
        return self.conv(images[0]) - self.conv(images[-1] * 2)


class StarKeywords(_Base):
    def forward(self, **named: torch.Tensor) -> torch.Tensor:
        return self.conv(named["image"])


class Both(_Base):
    def forward(self, x: torch.Tensor, *rest: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return self.conv(x) + sum(self.conv(r) for r in rest) * 0.5 + named["mask"]


class Returned(_Base):
    """Its input, a parameter, a buffer, a made constant, one tensor twice, a number, nothing and text."""

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        y = self.conv(x)
        return y, x, self.scale, self.table, torch.ones(3) * 2, y, 7, 0.5, None, "text"


class Constant(_Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table * 2


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (StarArgs(), PICTURE),
        (StarArgs(), (PICTURE, PICTURE.flip(2))),
        (StarKeywords(), {"image": PICTURE}),
        (Both(), ((PICTURE, PICTURE.flip(3)), {"mask": PICTURE[:, :1, :6, :6]})),
        (nn.Identity(), PICTURE),
        (Returned(), PICTURE),
        (Constant(), PICTURE),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("twin", ["onnxruntime", "onnx-reference"])
def test_it_gets_an_answer(module: nn.Module, inputs: Any, twin: str) -> None:
    found = twinnet.check(module.eval(), inputs, twin=twin)
    assert found.verdict == "PASS", str(found)


@pytest.mark.parametrize("output", ["clone", "clone_1", "clone_2", "mul", "clone_3", "full", "full_1"])
def test_one_that_is_wrong_in_a_file_is_found(tmp_path: Path, output: str) -> None:
    """The same outputs; the copy, the constant or the number is twice or minus what it is."""
    network = TorchNetwork(Returned(), example=PICTURE)
    model = onnx_artefact(network, None, Job({"x": PICTURE.numpy()})).model
    weights = [t for t in model.graph.initializer if t.name == output]
    for tensor in weights:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 2, output))
    for node in model.graph.node:
        if output in node.output:
            node.op_type = "Neg"
    file = save(model, tmp_path / "twin.onnx")
    found = twinnet.check(Returned(), PICTURE, twin=f"onnxruntime:{file}")
    assert found.verdict == "FAIL", str(found)
