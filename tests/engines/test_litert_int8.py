"""Quantised TFLite files with something wrong: scale, zero point, a saturated channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from benchmarks.faults.tflite_edit import TfliteEdit

import twinnet
from tests.needs import need_engine
from tests.tflite_nets import small, small_tflite
from twinnet.engines._litert_make import Quantise, quantised
from twinnet.job import Job
from twinnet.overview import inspect
from twinnet.result import Result


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("litert")


@cache
def _int8() -> bytes:
    _, (x,) = small()
    sample = {"args_0": x.numpy()}
    return quantised(small_tflite(), Quantise("static"), [sample], Job(sample)).data


def _checked(edit: TfliteEdit, folder: Path) -> Result:
    path = folder / "int8.tflite"
    path.write_bytes(edit.data())
    module, inputs = small()
    found = twinnet.check(module, inputs, f"litert?kernels=builtin:{path}", keep="none")
    assert isinstance(found, Result)
    return found


def _wrong_scale(edit: TfliteEdit) -> None:
    """One channel of a weight has a scale that is a tenth larger."""
    steps = edit.tensor(edit.operators("DEPTHWISE_CONV_2D")[0], 1).quantization
    scale = np.array(steps.scale, np.float32)
    scale[2] *= 1.1
    steps.scale = scale


def _wrong_zero(edit: TfliteEdit) -> None:
    """What the first convolution makes is counted from another zero: large values no longer fit."""
    steps = edit.output(edit.operators("CONV_2D")[0]).quantization
    steps.zeroPoint = np.array(steps.zeroPoint, np.int64) + 40


def _saturated(edit: TfliteEdit) -> None:
    """A channel of a weight whose integers are all at the end of their range."""
    op = edit.operators("CONV_2D")[2]
    weight = edit.constant(op, 1)
    weight[3] = 127
    edit.give(op, 1, weight)


@pytest.mark.parametrize(
    ("plant", "module"),
    [(_wrong_scale, "norm"), (_wrong_zero, "stem.2"), (_saturated, "gate.fc2")],
    ids=["scale", "zero point", "saturated channel"],
)
def test_a_wrong_step_is_a_finding(plant: Callable[[TfliteEdit], None], module: str, tmp_path: Path) -> None:
    edit = TfliteEdit(_int8())
    plant(edit)
    found = _checked(edit, tmp_path)
    assert found.verdict == "FAIL", found
    assert found.findings[0].place.module == module, found


def test_the_same_file_unchanged_passes_and_integers_are_compared_exactly(tmp_path: Path) -> None:
    edit = TfliteEdit(_int8())
    assert _checked(edit, tmp_path).verdict == "PASS"
    path = tmp_path / "int8.tflite"
    found = twinnet.check(str(path), None, "litert?kernels=reference", keep="none")
    assert isinstance(found, Result)
    assert found.verdict == "PASS", found
    integers = [p for p in found.pairs if p.site.dtype == "int8"]
    assert len(integers) == len(found.pairs) >= 25
    assert not any(p.transform for p in integers)


def test_a_network_is_followed_to_its_quantised_form() -> None:
    module, inputs = small()
    found = twinnet.stages(module, inputs, "litert?quantize=static&kernels=reference", keep="none")
    ran = {s.name: s.state for s in found.stages}
    assert list(ran) == ["eager", "exported", "decomposed", "litert", "quantised", "engine"]
    assert set(ran.values()) == {"start", "ran"}
    assert found.verdict == "PASS", found


def test_the_operators_of_a_file_are_counted_with_those_of_the_delegate(tmp_path: Path) -> None:
    path = tmp_path / "int8.tflite"
    path.write_bytes(_int8())
    found = inspect(str(path), ops=True)
    assert found.operators["CONV_2D"] == found.delegated["CONV_2D"] == 3
    assert any("XNNPACK runs" in note for note in found.notes)
