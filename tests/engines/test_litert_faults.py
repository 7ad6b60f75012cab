"""Faults planted into TFLite files: found at the right layer, with the cause, and shown by a repro."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from benchmarks.faults.tflite_edit import TfliteEdit

import twinnet
from tests.needs import need_engine
from tests.tflite_nets import small, small_tflite
from twinnet.result import Result


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("litert")


@dataclass(frozen=True)
class Fault:
    """What is changed, and the layer and the kind of cause that a finding has to name."""

    name: str
    label: str
    kind: str
    plant: Callable[[TfliteEdit], None]


def _padding(edit: TfliteEdit) -> None:
    edit.give(edit.operators("PAD")[0], 1, np.array([[0, 0], [0, 2], [0, 2], [0, 0]], np.int32))


def _activation(edit: TfliteEdit) -> None:
    edit.operators("CONV_2D")[0].builtinOptions.fusedActivationFunction = 1


def _weight(edit: TfliteEdit) -> None:
    op = edit.operators("DEPTHWISE_CONV_2D")[0]
    value = edit.constant(op, 1)
    value[..., 3] *= 1.5
    edit.give(op, 1, value)


def _bias(edit: TfliteEdit) -> None:
    op = edit.operators("CONV_2D")[1]
    edit.give(op, 2, np.zeros_like(edit.constant(op, 2)))


def _resize(edit: TfliteEdit) -> None:
    for op in edit.operators("RESIZE_BILINEAR")[:1]:
        op.builtinOptions.halfPixelCenters, op.builtinOptions.alignCorners = False, True


def _pool(edit: TfliteEdit) -> None:
    edit.become(edit.operators("MAX_POOL_2D")[0], "AVERAGE_POOL_2D")


def _order(edit: TfliteEdit) -> None:
    op = edit.operators("CONCATENATION")[0]
    op.inputs = [int(t) for t in reversed(op.inputs)]


def _flatten(edit: TfliteEdit) -> None:
    """The image is flattened as it is stored, with channels last."""
    op = edit.operators("TRANSPOSE")[-1]
    edit.give(op, 1, np.array([0, 1, 2, 3], np.int32))


FAULTS = (
    Fault("padding", "stem.0 conv2d", "padding", _padding),
    Fault("activation", "stem.2 hardtanh", "activation", _activation),
    Fault("weight", "depthwise conv2d", "scale", _weight),
    Fault("bias", "gate.fc1 conv2d", "bias", _bias),
    Fault("resize", "up upsample_bilinear2d", "resize", _resize),
    Fault("pool", "pool max_pool2d", "pooling", _pool),
    Fault("order", "cat cat", "operand order", _order),
    Fault("flatten", "view view", "layout", _flatten),
)
_QUICK = ("padding", "weight", "pool", "flatten")


def _cases() -> list[object]:
    """All faults; half of them are left to the slow tests."""
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(f, id=f.name, marks=marks[f.name in _QUICK]) for f in FAULTS]


@pytest.mark.parametrize("fault", _cases())
def test_a_planted_fault_is_named(fault: Fault, tmp_path: Path) -> None:
    edit = TfliteEdit(small_tflite().data)
    fault.plant(edit)
    path = tmp_path / "planted.tflite"
    path.write_bytes(edit.data())
    module, inputs = small()
    found = twinnet.check(module, inputs, f"litert:{path}", out=str(tmp_path / "run"))
    assert isinstance(found, Result)
    assert found.verdict == "FAIL", found
    first = found.findings[0]
    assert first.cause is not None and first.cause.kind == fault.kind, found
    assert first.place.label == fault.label
    assert first.confirmed
    assert len(found.findings) == 1, found
    if fault.name in ("padding", "pool"):
        made = twinnet.repro(found, out=tmp_path / "repro")
        assert made.kind == "part" and made.confirmed, made
        assert (made.folder / "twin.tflite").stat().st_size < 20_000
