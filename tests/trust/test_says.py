"""What a run says is so: repros, baselines, rules, stages and quantised twins."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import twinnet
from tests.narrow import Files, weight_of
from twinnet.result import Result
from twinnet.shrink.folder import start

Edit = Callable[[np.ndarray], np.ndarray]


def edited(source: Path, target: Path, **edits: Edit) -> Path:
    """A copy of an ONNX file with other data for some weights; dots of their names are written as two underscores."""
    model = onnx.load(str(source))
    for name, edit in edits.items():
        tensor = weight_of(model, name.replace("__", "."))
        array = numpy_helper.to_array(tensor).copy()
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(edit(array), array.dtype), tensor.name))
    onnx.save(model, str(target))
    return target


def flipped(weight: np.ndarray) -> np.ndarray:
    weight[3, 2, 1, 1] = -64 if weight[3, 2, 1, 1] > 0 else 64
    return weight


FAULTS: dict[str, tuple[dict[str, Edit], dict[str, Edit], str]] = {
    "scale": (
        {"left__weight_scale": lambda a: a * 2},
        {"left__weight_scale": lambda a: a / 2},
        "steps.scale",
    ),
    "range": ({"relu_1_scale": lambda a: a * 0.4}, {"relu_1_scale": lambda a: a / 0.4}, "steps.range"),
    "one": ({"left__weight_quantized": flipped}, {}, "steps.one"),
}
"""What is done to the file, how it is undone by hand, and the cause that must be named."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_repro_of_an_int8_fault_shows_it_and_passes_when_it_is_repaired(
    narrow: Files, tmp_path: Path, name: str
) -> None:
    fault, undo, code = FAULTS[name]
    file = edited(narrow.int8, tmp_path / "twin.onnx", **fault)
    image = {"image": narrow.image.numpy()}
    found = twinnet.check(str(narrow.network), image, f"onnxruntime:{file}", out=tmp_path / "run")
    assert isinstance(found, Result)
    first = found.findings[0]
    assert first.cause is not None and first.cause.fact.code == code
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert (made.confirmed, made.repaired) == (True, True), str(made)
    assert "the fault is gone" in str(made)
    with np.load(tmp_path / "repro/inputs.npz") as inputs:
        assert any(inputs[k].any() for k in inputs.files)
    assert "network  agrees" in made.said
    if undo:
        healed = shutil.copytree(tmp_path / "repro", tmp_path / "healed")
        edited(healed / "twin.onnx", healed / "twin.onnx", **undo)
        exit_code, said = start(healed)
        assert exit_code == 0, said
