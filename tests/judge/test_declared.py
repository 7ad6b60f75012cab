"""A quantised twin is held to the steps it declares: rounding passes, anything more is found where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import twinnet
from tests.narrow import Files, weight_of
from twinnet.result import Result


def _change(model: onnx.ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    tensor = weight_of(model, name)
    before = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(change(before.copy()).astype(before.dtype), name))


def _one_weight(weights: np.ndarray) -> np.ndarray:
    """One weight of one channel is off by some steps, the others are as they should be."""
    place = tuple(np.argwhere(np.abs(weights) < 40)[0])
    weights[place] += 60
    return weights


def _pads(model: onnx.ModelProto) -> None:
    node = next(n for n in model.graph.node if n.op_type == "Conv" and "left.weight" in n.input[1])
    pads = next(a for a in node.attribute if a.name == "pads")
    del pads.ints[:]
    pads.ints.extend([0, 1, 2, 1])


def test_weights_whose_steps_are_16_times_too_large(narrow: Files, tmp_path: Path) -> None:
    model = onnx.load(narrow.int8)
    exact = dict(narrow.module.named_parameters())["left.weight"].detach().numpy()
    scale = numpy_helper.to_array(weight_of(model, "left.weight_scale")) * 16
    steps = exact / scale.reshape([-1, 1, 1, 1] if scale.size > 1 else [1, 1, 1, 1])
    _change(model, "left.weight_scale", lambda s: s * 16)
    _change(model, "left.weight_quantized", lambda q: np.round(steps))
    onnx.save(model, tmp_path / "bad.onnx")
    result = twinnet.check(narrow.module, narrow.image, f"onnxruntime:{tmp_path / 'bad.onnx'}")
    assert isinstance(result, Result) and result.verdict == "FAIL"
    (finding,) = result.findings
    assert finding.cause is not None and "scale of its weights is far too large" in finding.cause.sentence


def _scale_of(model: onnx.ModelProto, weight: str) -> str:
    """The scale of what the convolution with this weight makes."""
    made = next(n for n in model.graph.node if n.op_type == "Conv" and weight in n.input[1]).output[0]
    return next(n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == made).input[1]


FAULTS: dict[str, tuple[Callable[[onnx.ModelProto], None], str]] = {
    "one weight changed": (lambda m: _change(m, "down.conv.weight_quantized", _one_weight), "down"),
    "weights of a channel doubled": (
        lambda m: _change(m, "left.weight_scale", lambda s: s * np.where(np.arange(16) == 3, 2, 1)),
        "left",
    ),
    "zero point moved": (lambda m: _change(m, "stem.conv.weight_zero_point", lambda z: z + 3), "stem"),
    "padding moved": (_pads, "left"),
    "range 16 times too large": (
        lambda m: _change(m, _scale_of(m, "right.weight"), lambda s: s * 16),
        "right",
    ),
    "range too small": (lambda m: _change(m, _scale_of(m, "right.weight"), lambda s: s / 4), "right"),
}


@pytest.mark.parametrize(
    ("fault", "level"), [*((fault, "all") for fault in FAULTS), ("padding moved", "off")]
)
def test_a_fault_in_a_quantised_twin_is_found_where_it_is(
    narrow: Files, fault: str, level: str, tmp_path: Path
) -> None:
    model = onnx.load(narrow.int8)
    plant, place = FAULTS[fault]
    plant(model)
    bad = tmp_path / "bad.onnx"
    onnx.save(model, bad)
    result = twinnet.check(narrow.module, narrow.image, f"onnxruntime?opt={level}:{bad}")
    assert isinstance(result, Result)
    assert result.verdict == "FAIL", repr(result)
    assert any(place in label for label in result.findings[0].segment), repr(result)
    assert len(result.findings) == 1, repr(result)
    if "16 times" in fault:
        cause = result.findings[0].cause
        assert cause is not None and cause.kind == "quantisation" and "far too large" in cause.sentence
    if fault == "range too small":
        assert "clips" in str(result.findings[0].reason) or result.findings[0].cause is not None


def test_the_screen_speaks_of_steps(narrow: Files) -> None:
    screen = repr(twinnet.check(narrow.module, narrow.image, str(narrow.int8)))
    assert "int8" in screen and "within its quantisation steps" in screen
