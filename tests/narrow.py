"""One network and its twins in narrow formats: float16 and int8 ONNX files made from it."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, stride, 1)
        self.norm = nn.BatchNorm2d(after)
        self.act = nn.ReLU()
        assert self.norm.running_mean is not None and self.norm.running_var is not None
        nn.init.normal_(self.norm.running_mean, std=0.1)
        nn.init.uniform_(self.norm.running_var, 0.02, 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


class Net(nn.Module):
    """Convolutions with folded norms, a residual connection, two branches on one tensor, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Block(3, 8)
        self.down = Block(8, 16, 2)
        self.left = nn.Conv2d(16, 16, 3, padding=1)
        self.right = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.down(self.stem(image))
        x = x + torch.relu(self.left(x)) + torch.relu(self.right(x))
        return self.head(x.mean((2, 3)))


@dataclass(frozen=True)
class Files:
    """The module, an input, and the files made from it."""

    module: nn.Module
    image: torch.Tensor
    network: Path
    half: Path
    int8: Path
    int8_operators: Path


def make(folder: Path) -> Files:
    """Export the network, and make a float16 and an int8 file of it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    torch.manual_seed(5)
    module = Net().eval()
    image = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(6))
    files = Files(
        module, image, *(folder / f"{name}.onnx" for name in ("network", "half", "int8", "operators"))
    )
    export(module, image, files.network)
    narrow = Net()
    narrow.load_state_dict(module.state_dict())
    export(narrow.eval().half(), image.half(), files.half)

    class Photos(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter([{"image": image.numpy()}])

        def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return next(self._left, None)

    logging.getLogger().setLevel(logging.ERROR)
    quantize_static(
        files.network,
        files.int8,
        Photos(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        weight_type=QuantType.QInt8,
        activation_type=QuantType.QUInt8,
        reduce_range=True,  # a processor without VNNI saturates sums of two 8-bit products
    )
    operators = {"quant_format": QuantFormat.QOperator, "reduce_range": True}
    quantize_static(files.network, files.int8_operators, Photos(), **operators)
    return files


def export(module: nn.Module, image: torch.Tensor, file: Path) -> None:
    with _silence():
        torch.onnx.export(module, (image,), file, dynamo=True, external_data=False, input_names=["image"])


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def weight_of(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(t for t in model.graph.initializer if t.name == name)
