"""Recordings: run a side here, compare it there; folders of arrays; what is damaged or other is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

import twinnet
from tests.onnx_edit import make_model, node_of, save, scale_channel
from twinnet.checking.compare import compare
from twinnet.checking.record import record
from twinnet.errors import UsageError
from twinnet.name_map import read_name_map
from twinnet.recording import load_recording
from twinnet.result import Result

RNG = np.random.default_rng(0)
SAMPLES = [{"x": RNG.standard_normal((1, 3, 10, 10)).astype(np.float32)} for _ in range(2)]


def _model() -> Any:
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    weights = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in (("w", (6, 3, 3, 3)), ("v", (4, 6, 1, 1)))
    }
    return make_model(nodes, {"x": (1, 3, 10, 10)}, ["y"], weights)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("recordings")
    good, bad = _model(), _model()
    scale_channel(bad, node_of(bad, "Conv", 1), 2, 1.01)
    found = {"good": save(good, root / "good.onnx"), "bad": save(bad, root / "bad.onnx")}
    for name, file, spec, level in (
        ("here", "good", "onnxruntime?opt=off", "intermediates"),
        ("board", "good", "onnxruntime?opt=all", "intermediates"),
        ("faulty", "bad", "onnxruntime?opt=off", "intermediates"),
        ("outputs", "good", "onnxruntime?opt=off", "outputs"),
    ):
        record(str(found[file]), SAMPLES, out=root / name, reference=spec, level=level)
        found[name] = root / name
    return found


def _compare(a: Path, b: Path, **options: Any) -> Result:
    found = compare(a, b, **options)
    assert isinstance(found, Result)
    return found


def test_a_recording_holds_what_ran(files: dict[str, Path]) -> None:
    found = load_recording(files["here"])
    assert [s.tensor for s in found.sites] == ["c", "r", "d", "y"] and found.outputs == ("y",)
    assert len(found.samples) == 2 and np.array_equal(found.sample(1)["x"], SAMPLES[1]["x"])
    assert found.trace(0)["y"].shape == (1, 4, 10, 10)
    assert [s.tensor for s in load_recording(files["outputs"]).sites] == ["y"]
    assert "c" not in load_recording(files["outputs"]).trace(0)


def test_two_machines_agree(files: dict[str, Path]) -> None:
    plain = _compare(files["here"], files["board"])
    assert plain.verdict == "PASS" and plain.inputs.samples == 2
    judged = _compare(files["here"], files["board"], network=str(files["good"]))
    assert judged.verdict == "PASS" and judged.coverage.judged == len(judged.pairs)


def test_with_the_network_the_fault_has_a_place(files: dict[str, Path]) -> None:
    found = _compare(files["here"], files["faulty"], network=str(files["good"]))
    assert found.verdict == "FAIL" and [f.site.tensor for f in found.findings] == ["d"]
    plain = _compare(files["here"], files["faulty"])
    assert plain.verdict == "FAIL" and "only outputs are judged" in str(plain.coverage.note)


def test_outputs_only(files: dict[str, Path]) -> None:
    found = _compare(files["outputs"], files["outputs"])
    assert found.verdict == "PASS" and [p.site.tensor for p in found.pairs] == ["y"]
    assert _compare(files["outputs"], files["faulty"]).verdict == "FAIL"


def test_tolerances_hold_here_too(files: dict[str, Path]) -> None:
    assert _compare(files["here"], files["faulty"], tolerance=twinnet.Tolerance(atol=1.0)).verdict == "PASS"
    assert _compare(files["here"], files["board"], tolerance=twinnet.Tolerance(ulp=0, atol=0)).verdict in (
        "PASS",
        "FAIL",
    )


def test_a_check_takes_a_recording_as_its_twin(files: dict[str, Path]) -> None:
    found = twinnet.check(str(files["good"]), SAMPLES, f"recording:{files['faulty']}")
    assert isinstance(found, Result) and [f.site.tensor for f in found.findings] == ["d"]
    other = twinnet.check(str(files["good"]), {"x": SAMPLES[0]["x"] + 1}, f"recording:{files['faulty']}")
    assert other.verdict == "ERROR" and "was not made on these inputs" in other.error  # type: ignore[union-attr]


def _arrays(files: dict[str, Path], folder: Path, names: dict[str, str], off: float = 0.0) -> Path:
    folder.mkdir()
    trace = load_recording(files["here"]).trace(0)
    for ours, theirs in names.items():
        np.save(folder / f"{theirs}.npy", trace[ours] + np.float32(off))
    return folder


@pytest.fixture
def one(files: dict[str, Path], tmp_path: Path) -> Path:
    """A recording of one sample."""
    return record(str(files["good"]), SAMPLES[:1], out=tmp_path / "one").folder


def test_arrays_with_a_map_of_names(files: dict[str, Path], one: Path, tmp_path: Path) -> None:
    theirs = _arrays(files, tmp_path / "npy", {"y": "prob", "d": "logits", "c": "conv"})
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"y": "prob", "d": "logits", "c": "conv"}))
    found = _compare(one, theirs, names=str(names), network=str(files["good"]))
    assert found.verdict == "PASS", found
    assert {(p.site.tensor, p.twin_site.tensor, p.how) for p in found.pairs} == {
        ("c", "conv", "stated"),
        ("d", "logits", "stated"),
        ("y", "prob", "stated"),
    }


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_two_folders_of_arrays(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    a = _arrays(files, tmp_path / "a", {"y": "y", "d": "d"})
    b = _arrays(files, tmp_path / "b", {"y": "y", "d": "d"})
    c = _arrays(files, tmp_path / "c", {"y": "y", "d": "d"}, off=0.2)
    if kind == "npz":
        for folder in (a, b, c):
            np.savez(folder / "all.npz", **{p.stem: np.load(p) for p in sorted(folder.glob("*.npy"))})
            for path in folder.glob("*.npy"):
                path.unlink()
    assert _compare(a, b).verdict == "PASS"
    found = _compare(a, c)
    assert found.verdict == "FAIL" and {p.status for p in found.pairs} == {"fail"}
    assert _compare(a, c, tolerance=twinnet.Tolerance(atol=0.3)).verdict == "PASS"


def test_arrays_of_another_shape_fail(tmp_path: Path) -> None:
    for name, shape in (("a", (2, 3)), ("b", (3, 2))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "y.npy", np.arange(6, dtype=np.float32).reshape(shape))
    found = _compare(tmp_path / "a", tmp_path / "b")
    assert found.verdict == "FAIL", found


def test_other_inputs_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    other = [{"x": rng.standard_normal(s["x"].shape).astype(np.float32)} for s in SAMPLES]
    record(str(files["good"]), other, out=tmp_path / "other")
    with pytest.raises(UsageError, match="input x is not the same in both recordings"):
        compare(files["here"], tmp_path / "other")
    record(str(files["good"]), SAMPLES[:1], out=tmp_path / "fewer")
    with pytest.raises(UsageError, match=r"2 samples, .* has 1"):
        compare(files["here"], tmp_path / "fewer")


def test_a_network_it_was_not_made_from_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    other = make_model([helper.make_node("Neg", ["x"], ["z"])], {"x": (1, 3, 10, 10)}, ["z"])
    with pytest.raises(UsageError, match="was not made from the network"):
        compare(files["here"], files["board"], network=str(save(other, tmp_path / "other.onnx")))


def _break(how: str, folder: Path) -> None:
    sample = folder / "0000"
    tensors = next(p for p in sample.iterdir() if p.name != "inputs.safetensors")
    if how == "index":
        (folder / "recording.json").write_text((folder / "recording.json").read_text()[:100])
    elif how == "schema":
        index = json.loads((folder / "recording.json").read_text())
        (folder / "recording.json").write_text(json.dumps({**index, "schema": 99}))
    elif how == "sample":
        shutil.rmtree(folder / "0001")
    elif how == "tensors":
        tensors.write_bytes(tensors.read_bytes()[:-10])
    elif how == "gone":
        tensors.unlink()
    elif how == "inputs":
        (sample / "inputs.safetensors").write_bytes(b"junk")


@pytest.mark.parametrize("how", ["index", "schema", "sample", "tensors", "gone", "inputs"])
def test_damaged_recordings_are_refused(files: dict[str, Path], tmp_path: Path, how: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(files["board"], folder)
    _break(how, folder)
    with pytest.raises(UsageError, match=r"copy"):
        compare(files["here"], folder)


def test_folders_that_hold_nothing_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such recording"):
        compare(files["here"], tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds neither a recording nor"):
        compare(files["here"], tmp_path / "empty")
    (tmp_path / "empty" / "y.npy").write_bytes(b"\x93NUMPY junk")
    with pytest.raises(UsageError, match="not a readable array file"):
        compare(files["here"], tmp_path / "empty")


def test_pickles_are_never_loaded(files: dict[str, Path], tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="not a readable array file"):
        compare(files["here"], tmp_path)


def test_a_folder_of_something_else_is_not_overwritten(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match="exists and is not a recording"):
        record(str(files["good"]), SAMPLES, out=tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years"


def test_a_recording_may_be_made_again(files: dict[str, Path], tmp_path: Path) -> None:
    record(str(files["good"]), SAMPLES, out=tmp_path / "r")
    made = record(str(files["good"]), SAMPLES[:1], out=tmp_path / "r", level="outputs")
    assert len(made.samples) == 1 and list(made.trace(0)) in (["y"], ["x", "y"])
    assert _compare(tmp_path / "r", tmp_path / "r").verdict == "PASS"


@pytest.mark.parametrize(
    ("name", "text"), [("m.json", '{"a": "b"}'), ("m.toml", 'a = "b"'), ("m.txt", "# names\na = b\n")]
)
def test_maps_of_names(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_name_map(tmp_path / name) == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "text"), [("m.json", "{"), ("m.json", '["a"]'), ("m.toml", "a = 3"), ("m.txt", "nothing here")]
)
def test_maps_that_are_none(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=name):
        read_name_map(tmp_path / name)


def test_a_module_is_left_in_the_mode_its_owner_left_it_in(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    made = [record(module, torch.ones(1, 4), out=tmp_path / name) for name in ("one", "two")]
    assert module.training and all(part.training for part in module)
    first, second = (dict(recorded.trace(0)) for recorded in made)
    assert first and all(np.array_equal(first[name], second[name]) for name in first), "nothing was dropped"
