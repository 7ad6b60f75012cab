"""Recordings that somebody else wrote: a phone's dump beside the network, with its own names and channels last."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import twinnet
from tests.trust.running import call
from twinnet.checking.compare import compare
from twinnet.checking.record import record
from twinnet.errors import UsageError
from twinnet.name_map import read_name_map
from twinnet.recording import load_recording
from twinnet.result import Result

EXAMPLE = Path(__file__).parents[1] / "examples" / "detector"
DETECTOR = f"{EXAMPLE / 'detector.py'}:build"


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example's phone dumps: two samples, channels last, one wrong activation."""
    folder = tmp_path_factory.mktemp("dump") / "phone"
    sys.path.insert(0, str(EXAMPLE))
    sys.modules.pop("detector", None)  # other tests have files of this name
    try:
        runpy.run_path(str(EXAMPLE / "phone.py"))["main"](folder)
    finally:
        sys.path.remove(str(EXAMPLE))
    return folder


def _check(twin: Path, inputs: Any = None, **options: Any) -> Result:
    found = twinnet.check(DETECTOR, inputs, f"recording:{twin}", keep="none", **options)
    assert isinstance(found, Result)
    return found


def _said(found: Result) -> str:
    return " ".join(str(guard.fact) for guard in found.guards)


def _guilty(found: Result) -> list[str]:
    return [finding.place.module for finding in found.findings]


def _copy(phone: Path, to: Path, change: Any = lambda name, array: (name, array)) -> Path:
    """One sample of the dump as a flat folder, with other names or values."""
    to.mkdir()
    for path in sorted((phone / "0000").glob("*.npy")):
        name, array = change(path.stem, np.load(path))
        if name:
            np.save(to / f"{name}.npy", array)
    return to


def test_a_dump_leads_to_the_guilty_layer(phone: Path) -> None:
    found = _check(phone)
    assert found.verdict == "FAIL" and _guilty(found) == ["backbone.1.act"]
    assert "alpha 0.2 where the network has 0.1" in str(
        found.findings[0].cause and found.findings[0].cause.fact
    )
    assert found.inputs.samples == 2 and found.coverage.paired == 10
    assert "image is recorded as 1x64x48x3: its channels are put first" in _said(found)
    assert "holds 11 tensors with channels last" in _said(found)
    assert {p.site.own_name for p in found.outputs} == {"boxes", "scores"}


@pytest.mark.parametrize("form", ["channels first", "no batch", "npz", "numbered"])
def test_other_forms_of_the_same_dump(phone: Path, tmp_path: Path, form: str) -> None:
    numbers = iter(range(100))
    changes: dict[str, Any] = {
        "channels first": lambda n, a: (n, a.transpose(0, 3, 1, 2)),
        "no batch": lambda n, a: (n, a if n == "image" else a[0]),
        "npz": lambda n, a: (n, a),
        "numbered": lambda n, a: (n if n == "image" else f"{next(numbers):03d}_{n.upper()}_output_0", a),
    }
    folder = _copy(phone, tmp_path / "dump", changes[form])
    if form == "npz":
        np.savez(tmp_path / "all.npz", **{p.stem: np.load(p) for p in folder.glob("*.npy")})
        folder = tmp_path / "all.npz"
    found = _check(folder)
    assert found.verdict == "FAIL" and _guilty(found) == ["backbone.1.act"] and found.coverage.paired == 10
    assert ("channels last" in _said(found)) == (form != "channels first")


def test_pictures_whose_sizes_are_all_equal_are_told_by_their_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 1)).eval()
    x = torch.randn(1, 6, 6, 6)
    with torch.no_grad():
        kept = {"input": x, "0": net[0](x), "output": net(x)}
    for last in (True, False):
        np.savez(
            tmp_path / f"{last}.npz", **{n: t.permute(0, 2, 3, 1) if last else t for n, t in kept.items()}
        )
        found = twinnet.check(net, x, f"recording:{tmp_path / f'{last}.npz'}", keep="none")
        assert found.verdict == "PASS" and ("channels last" in _said(found)) == last  # type: ignore[arg-type]


def test_a_transposed_matrix_is_wrong(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(6, 6).eval(), torch.randn(1, 6, 6)
    np.savez(tmp_path / "twin.npz", input=x, output=net(x).detach().transpose(1, 2))
    assert twinnet.check(net, x, f"recording:{tmp_path / 'twin.npz'}", keep="none").verdict == "FAIL"


def test_the_inputs_may_stand_elsewhere(phone: Path, tmp_path: Path) -> None:
    bare = _copy(phone, tmp_path / "bare", lambda n, a: ("" if n == "image" else n, a))
    with pytest.raises(UsageError, match="does not hold the inputs it was recorded on") as refused:
        _check(bare)
    assert "image.npy" in str(refused.value.hint)
    image = np.load(phone / "0000" / "image.npy")
    assert _guilty(_check(bare, {"image": image.transpose(0, 3, 1, 2)})) == ["backbone.1.act"]
    with pytest.raises(UsageError, match="holds 1 samples, the inputs are 2"):
        _check(bare, [{"image": image.transpose(0, 3, 1, 2)}] * 2)


def test_a_picture_with_channels_last_is_named(phone: Path, tmp_path: Path) -> None:
    bare = _copy(phone, tmp_path / "bare", lambda n, a: ("" if n == "image" else n, a))
    image = np.load(phone / "0000" / "image.npy")
    found = _check(bare, {"image": image})
    assert found.verdict == "ERROR" and "channels last (NHWC)" in found.error
    with pytest.raises(UsageError) as refused:
        twinnet.check(DETECTOR, {"image": image}, "torch", shapes={"image": (1, 3, 64, 48)})
    assert "array.transpose(0, 3, 1, 2)" in str(refused.value.hint)


def test_another_picture_on_the_phone_is_a_finding(phone: Path, tmp_path: Path) -> None:
    swapped = _copy(phone, tmp_path / "bgr", lambda n, a: (n, a[..., ::-1] if n == "image" else a))
    image = np.load(phone / "0000" / "image.npy").transpose(0, 3, 1, 2)
    found = _check(swapped, {"image": image})
    assert any("reverse" in str(f.cause and f.cause.fact) for f in found.findings)


def test_when_nothing_pairs_both_sides_are_listed_and_a_map_is_offered(
    phone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    letters = iter("abcdefghijklmnop")
    odd = _copy(phone, tmp_path / "odd", lambda n, a: (n, a) if n == "image" else (next(letters), a * 1.5))
    said = call(monkeypatch, capfd, "check", DETECTOR, "--twin", f"recording:{odd}")
    assert said.code == 3
    words = " ".join(said.out.split())
    assert "the network has backbone.0.conv, backbone.0.act" in words and "the twin has a, b, c" in words
    assert "most likely backbone.0.conv = b, backbone.0.act = a" in words
    assert "--names-out names.toml" in words
    said = call(
        monkeypatch, capfd, "check", DETECTOR, "--twin", f"recording:{odd}", "--names-out", "names.toml"
    )
    assert "--names names.toml" in " ".join(said.out.split())
    names = read_name_map("names.toml")
    assert names["boxes"] == "g" and names["scores"] == "j" and names["neck.act"] == "h"
    found = _check(odd, names=names)
    assert found.verdict == "FAIL" and found.coverage.paired == 10 and "nothing called" not in _said(found)


@pytest.mark.parametrize("name", ["m.json", "m.toml", "m.txt"])
def test_a_written_map_can_be_read(phone: Path, tmp_path: Path, name: str) -> None:
    _check(phone, names_out=tmp_path / name)
    names = read_name_map(tmp_path / name)
    assert names["backbone.1.act"] == "backbone_1_act" and names["scores"] == "scores"
    assert _guilty(_check(phone, names=names)) == ["backbone.1.act"]


def test_what_is_missing_or_left_is_said(phone: Path, tmp_path: Path) -> None:
    headless = _copy(phone, tmp_path / "headless", lambda n, a: ("" if n in ("boxes", "scores") else n, a))
    found = _check(headless)
    assert found.verdict == "FAIL" and any(guard.weakens for guard in found.guards)
    assert "no array for the network's output boxes, scores" in _said(found)
    more = _copy(phone, tmp_path / "more")
    np.save(more / "temperature.npy", np.float32([21.5]))
    assert "1 array of the recording without a partner: temperature" in _said(_check(more))


def test_two_dumps_that_share_little_are_weak_evidence(phone: Path, tmp_path: Path) -> None:
    one = _copy(phone, tmp_path / "one")
    letters = iter("abcdefghijklmnop")
    two = _copy(phone, tmp_path / "two", lambda n, a: (n, a) if n == "image" else (next(letters), a * 1.5))
    found = compare(one, two)
    assert found.verdict == "PASS" and found.evidence == "weak"


def test_a_recording_beside_a_dump(phone: Path, tmp_path: Path) -> None:
    images = [np.load(phone / n / "image.npy").transpose(0, 3, 1, 2) for n in ("0000", "0001")]
    record(DETECTOR, [{"image": i} for i in images], out=tmp_path / "here")
    assert [s.output for s in load_recording(tmp_path / "here").sites if s.output] == ["boxes", "scores"]
    found = compare(tmp_path / "here", phone, network=DETECTOR)
    assert isinstance(found, Result) and _guilty(found) == ["backbone.1.act"]
    assert compare(phone, tmp_path / "here").verdict == "FAIL"
    other = np.random.default_rng(0).random((2, *images[0].shape), np.float32)
    record(DETECTOR, [{"image": i} for i in other], out=tmp_path / "other")
    with pytest.raises(UsageError, match="input image is not the same in both recordings"):
        compare(tmp_path / "other", phone)


def test_a_recording_brings_its_own_inputs(phone: Path, tmp_path: Path) -> None:
    image = np.load(phone / "0000" / "image.npy").transpose(0, 3, 1, 2)
    record(DETECTOR, {"image": image}, out=tmp_path / "here")
    found = _check(tmp_path / "here")
    assert found.verdict == "PASS" and found.inputs.description.startswith("1 sample from ")


def test_what_is_no_recording_is_refused(phone: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "conv.raw").write_bytes(bytes(64))
    with pytest.raises(UsageError) as refused:
        _check(tmp_path / "raw")
    assert "np.fromfile('conv.raw', np.float32)" in str(refused.value.hint)
    two = tmp_path / "two"
    for number, names in enumerate((("a", "b"), ("a",))):
        (two / f"{number:04d}").mkdir(parents=True)
        for name in names:
            np.save(two / f"{number:04d}" / f"{name}.npy", np.zeros(3))
    with pytest.raises(UsageError, match="only one of them has b"):
        _check(two)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UsageError, match="not a recording"):
        _check(tmp_path / "notes.txt")


def test_samples_keep_their_order(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        (tmp_path / f"s{number}").mkdir()
        np.save(tmp_path / f"s{number}" / "y.npy", np.float32([number]))
    found = load_recording(tmp_path)
    assert [float(found.trace(i)["y"][0]) for i in range(3)] == [1, 9, 10]


def _classifier() -> nn.Sequential:
    torch.manual_seed(0)
    parts = (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    return nn.Sequential(*parts).eval()


@pytest.mark.parametrize("wrong", [False, True])
def test_an_output_of_any_name_is_known_by_its_shape(tmp_path: Path, wrong: bool) -> None:
    net, x = _classifier(), torch.rand(1, 3, 8, 8)
    with torch.no_grad():
        np.savez(tmp_path / "a.npz", input=x, conv_17=net[0](x), Identity=net(x) + 0.5 * wrong)
    found = twinnet.check(net, x, f"recording:{tmp_path / 'a.npz'}", keep="none")
    assert isinstance(found, Result) and found.verdict == ("FAIL" if wrong else "PASS")
    assert "Identity is taken for the output output" in _said(found)


def test_an_output_that_shapes_do_not_tell_is_left_to_the_user(tmp_path: Path) -> None:
    net, x = nn.Sequential(_classifier(), nn.Softmax(1)).eval(), torch.rand(1, 3, 8, 8)
    with torch.no_grad():  # the logits have the shape of the output, and are all that was dumped
        np.savez(tmp_path / "a.npz", input=x, conv_17=net[0][0](x), Identity=net[0](x))
    found = twinnet.check(net, x, f"recording:{tmp_path / 'a.npz'}", keep="none")
    assert isinstance(found, Result) and found.verdict == "PASS" and "is taken for" not in _said(found)
    assert "holds no array for the network's output" in _said(found)
