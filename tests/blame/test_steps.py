"""Wrong steps of int8 files made by ONNX Runtime's own tools, and its softmax in whole numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from torch import nn

import twinnet


class _Once(CalibrationDataReader):
    def __init__(self, sample: dict[str, np.ndarray]) -> None:
        self._samples = [sample]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._samples.pop() if self._samples else None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, torch.Tensor, Path]:
    """Two convolutions with a ReLU between them, which the range of the first one's result replaces."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    x, folder = torch.rand(2, 3, 16, 16), tmp_path_factory.mktemp("steps")
    names = {"input_names": ["input"], "output_names": ["y"]}
    torch.onnx.export(net, (x,), folder / "net.onnx", dynamo=False, opset_version=17, **names)
    quantize_static(
        folder / "net.onnx",
        folder / "int8.onnx",
        _Once({"input": x.numpy()}),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        reduce_range=True,
    )
    return net, x, folder / "int8.onnx"


def _with_zero(file: Path, tensor: str, zero: int, reader: str = "") -> Path:
    """The file with another zero point of a tensor: everywhere, or for one operator only."""
    model = onnx.load(str(file))
    name = f"{tensor}_zero_point"
    held = next(i for i in model.graph.initializer if i.name == name)
    dtype = numpy_helper.to_array(held).dtype.type
    if reader:
        model.graph.initializer.append(numpy_helper.from_array(dtype(zero), "other"))
        for node in model.graph.node:
            if node.op_type == reader and node.input[2] == name:
                node.input[2] = "other"
    else:
        held.CopyFrom(numpy_helper.from_array(dtype(zero), name))
    path = file.with_name("other.onnx")
    onnx.save(model, str(path))
    return path


def test_the_range_that_replaces_a_relu_and_does_not_begin_at_0(
    made: tuple[nn.Module, torch.Tensor, Path],
) -> None:
    net, x, file = made
    assert twinnet.check(net, x, file).verdict == "PASS"
    found = twinnet.check(net, x, _with_zero(file, "/1/Relu_output_0", 9))
    assert [(f.site.label, f.cause and f.cause.fact.code) for f in found.findings] == [
        ("1 relu", "steps.below")
    ]
    cause = found.findings[0].cause
    assert cause is not None and (cause.network_value, cause.twin_value) == (0, 9)


@pytest.mark.parametrize("reader", ["QuantizeLinear", "DequantizeLinear"])
def test_an_input_that_is_read_otherwise_than_written(
    made: tuple[nn.Module, torch.Tensor, Path], reader: str
) -> None:
    net, x, file = made
    found = twinnet.check(net, x, _with_zero(file, "input", 30, reader))
    assert [f.cause and f.cause.fact.code for f in found.findings] == ["steps.read_zero_point"]
    # A step is within what steps explain: then the file says it.
    near = twinnet.check(net, x, _with_zero(file, "input", 1, reader))
    assert (near.verdict, near.evidence) == ("PASS", "weak")
    said = [g.message for g in near.guards if g.fact.code == "steps.otherwise"]
    assert len(said) == 1 and "input_QuantizeLinear_Output with other steps than it writes it with" in said[0]


def test_the_softmax_in_whole_numbers_counts_with_whole_steps() -> None:
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    net, x = nn.Sequential(*body, nn.Linear(8, 2), nn.Softmax(1)).eval(), torch.rand(8, 3, 16, 16)
    with torch.no_grad():
        net[4].weight.mul_(30)
    found = twinnet.check(net, x, "onnxruntime?quantize=static&reduce_range=1")
    assert [(f.site.label, f.cause and f.cause.fact.code) for f in found.findings] == [
        ("5 softmax", "steps.softmax")
    ]
    assert "counts 254 steps up to 1 where there are 255" in repr(found.findings[0])
    assert twinnet.check(net, x, "onnxruntime?quantize=static&reduce_range=1&opt=basic").verdict == "PASS"


def test_the_softmax_of_one_number_in_whole_numbers_is_0() -> None:
    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            return (y @ y.transpose(1, 2)).softmax(-1) * 3 + y.sum(-1, keepdim=True) * 0.1

    torch.manual_seed(0)
    found = twinnet.check(Alone().eval(), torch.randn(4, 1, 8), "onnxruntime?quantize=static&reduce_range=1")
    assert [f.cause and f.cause.twin_value for f in found.findings] == [0]
    assert found.findings[0].cause is not None and found.findings[0].cause.fact.code == "steps.softmax"
