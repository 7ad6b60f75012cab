"""Files with signed activations, ONNX Runtime's default: seen inside as they are deployed, faults placed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import twinnet
from twinnet.engines._ort_signed import has_signed, unsigned

SAMPLES = [torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(k)).numpy() for k in range(6)]


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        sizes = ((3, 8), (8, 8), (8, 6))
        self.layers = nn.ModuleList(nn.Conv2d(*size, 3, padding=1) for size in sizes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu() * 1.5
        return x


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A network and what ONNX Runtime's quantiser makes of it when nobody asks for other types."""
    from onnxruntime import quantization

    folder = tmp_path_factory.mktemp("signed")
    plain, made = folder / "net.onnx", folder / "int8.onnx"
    program = torch.onnx.export(
        Convolutions().eval(), (torch.from_numpy(SAMPLES[0]),), dynamo=True, verbose=False
    )
    assert program is not None
    program.save(str(plain))
    name = onnx.load(plain).graph.input[0].name

    class Reader(quantization.CalibrationDataReader):
        left = iter([{name: array} for array in SAMPLES])

        def get_next(self) -> Any:
            return next(self.left, None)

    quantization.quantize_static(str(plain), str(made), Reader(), per_channel=True, reduce_range=True)
    return plain, made


def edited(file: Path, ending: str, change: Callable[[np.ndarray], np.ndarray], which: int = 1) -> Path:
    model = onnx.load(file)
    named = sorted((t for t in model.graph.initializer if t.name.endswith(ending)), key=lambda t: t.name)
    tensor = named[which]
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), tensor.name))
    made = file.with_name("edited.onnx")
    onnx.save(model, made)
    return made


def test_a_right_file_is_seen_inside(files: tuple[Path, Path]) -> None:
    plain, made = files
    assert has_signed(onnx.load(made).graph)
    samples = [{"x": array} for array in SAMPLES[:2]]
    found = twinnet.check(str(plain), samples, f"onnxruntime:{made}")
    assert isinstance(found, twinnet.Result)
    assert (found.verdict, found.evidence) == ("PASS", "strong"), found
    assert sum(pair.status == "pass" for pair in found.pairs) >= 3
    assert not any(guard.fact.code.startswith("watching.") for guard in found.guards)  # as it is deployed


def test_a_wrong_scale_of_one_channel_is_found_at_its_layer(files: tuple[Path, Path]) -> None:
    plain, made = files

    def wrong(scales: np.ndarray) -> np.ndarray:
        scales[1] *= np.float32(1.05)
        return scales

    samples = [{"x": array} for array in SAMPLES[:2]]
    twin = edited(made, "weight_scale", wrong)
    found = twinnet.check(str(plain), samples, f"onnxruntime:{twin}")
    assert isinstance(found, twinnet.Result)
    assert found.verdict == "FAIL" and len(found.findings) == 1, found
    assert "layers.1" in str(found.findings[0].place) or "conv2d_1" in str(found.findings[0].place), found


def test_both_forms_compute_the_same(files: tuple[Path, Path]) -> None:
    import onnxruntime as ort

    _, made = files
    model = onnx.load(made)
    changed, moved = unsigned(model)
    assert moved and not has_signed(changed.graph)
    name, options = model.graph.input[0].name, ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    one, other = (
        ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for m in (model, changed)
    )
    for array in SAMPLES:
        shown = [np.asarray(session.run(None, {name: array})[0]) for session in (one, other)]
        assert np.array_equal(shown[0], shown[1])
