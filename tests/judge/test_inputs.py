"""Mistakes before the first layer: inputs that the twin prepared itself are compared first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import twinnet
from twinnet.judge.inputs import input_cause
from twinnet.result import Result


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1)).eval()


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    """Smooth, as pictures are."""
    rng = np.random.default_rng(1)
    small = rng.random((1, 3, 6, 6), dtype=np.float32)
    image = torch.nn.functional.interpolate(torch.from_numpy(small), (24, 24), mode="bicubic")
    return image.clamp(0, 1).numpy()


MISTAKES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "channels": (lambda x: x[:, ::-1], "BGR for RGB"),
    "range": (lambda x: 2 * x - 1, "[-1,1] where the network takes [0,1]"),
    "bytes": (lambda x: 255 * x, "[0,255] where the network takes [0,1]"),
    "statistics": (
        lambda x: (x - np.float32([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1)) / np.float32(0.225),
        "another mean or standard deviation",
    ),
    "layout": (lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(x.shape), "laid out as NHWC"),
    "mirror": (lambda x: x[..., ::-1], "mirrored"),
    "crop": (lambda x: np.roll(x, (-2, -1), (2, 3)) + _border(x, 2, 1), "cropped 2 rows lower and 1 columns"),
}


def _border(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """What a crop shows that the other did not: anything, at the far border."""
    extra = np.zeros_like(x)
    extra[:, :, -rows:] = 0.125
    extra[..., -columns:] = 0.125
    return extra


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_was_done_to_an_input_is_named(photo: np.ndarray, mistake: str) -> None:
    change, words = MISTAKES[mistake]
    cause, _ = input_cause("image", photo, np.ascontiguousarray(change(photo)))
    assert cause is not None and cause.kind == "preprocessing" and words in cause.sentence


def test_another_filter_is_told_from_other_data(photo: np.ndarray) -> None:
    blurred = torch.nn.functional.avg_pool2d(
        torch.from_numpy(photo), 3, 1, 1, count_include_pad=False
    ).numpy()
    cause, reason = input_cause("image", photo, blurred)
    assert cause is None and "resized, cropped or decoded differently" in str(reason)
    noise = np.random.default_rng(3).random(photo.shape, dtype=np.float32)
    cause, reason = input_cause("image", photo, noise)
    assert cause is None and "picture" not in str(reason)


def _pillow(file: Path, filter_: Image.Resampling) -> np.ndarray:
    with Image.open(file) as image:
        small = np.asarray(image.resize((24, 24), filter_), np.float32) / np.float32(255)
    return np.ascontiguousarray(small.transpose(2, 0, 1)[None])


def _torch(file: Path, **how: object) -> np.ndarray:
    with Image.open(file) as image:
        whole = torch.from_numpy(np.asarray(image, np.float32) / np.float32(255)).permute(2, 0, 1)[None]
    return torch.nn.functional.interpolate(whole, (24, 24), **how).clamp(0, 1).numpy()  # type: ignore[arg-type]


FILTERS: dict[str, tuple[Callable[[Path], np.ndarray], str]] = {
    "bilinear of Pillow": (
        lambda f: _pillow(f, Image.Resampling.BILINEAR),
        "resized bilinear with antialiasing",
    ),
    "area of Pillow": (lambda f: _pillow(f, Image.Resampling.BOX), "resized area"),
    "nearest": (lambda f: _torch(f, mode="nearest"), "resized nearest"),
    "area": (lambda f: _torch(f, mode="area"), "resized area of whole pixels"),
    "bilinear": (lambda f: _torch(f, mode="bilinear"), "resized bilinear without antialiasing"),
    "bilinear with antialiasing": (
        lambda f: _torch(f, mode="bilinear", antialias=True),
        "resized bilinear with antialiasing",
    ),
    "bicubic": (lambda f: _torch(f, mode="bicubic"), "resized bicubic (a = -0.75) without antialiasing"),
    "bilinear in 8 bits": (
        lambda f: np.rint(_torch(f, mode="bilinear") * 255).astype(np.float32) / np.float32(255),
        "resized bilinear without antialiasing",
    ),
    "aligned corners": (
        lambda f: _torch(f, mode="bilinear", align_corners=True),
        "resized bilinear with aligned corners",
    ),
}


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(6)
    file = tmp_path_factory.mktemp("pictures") / "picture.png"
    y, x = np.mgrid[0:61, 0:83]
    smooth = 120 + 70 * np.sin(y / 5)[..., None] * np.cos(np.stack([x, x + 9, x + 20], -1) / 7)
    Image.fromarray((smooth + rng.normal(0, 12, smooth.shape)).clip(0, 255).astype(np.uint8)).save(file)
    return file


def _check_prepared(net: nn.Module, file: Path, prepared: np.ndarray) -> Result:
    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            return {"input": prepared, "output": net(torch.from_numpy(prepared)).numpy()}

    result = twinnet.check(net, str(file), twin, shapes={"input": (1, 3, 24, 24)}, keep="none")
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("filter_", FILTERS)
def test_a_picture_resized_by_another_filter(net: nn.Module, picture: Path, filter_: str) -> None:
    prepare, words = FILTERS[filter_]
    (finding,) = _check_prepared(net, picture, prepare(picture)).findings
    assert finding.cause is not None, finding.reason
    assert finding.cause.kind == "preprocessing" and finding.cause.explains >= 0.99
    assert f"{words} where the network takes it resized bicubic with antialiasing" in finding.cause.sentence


def test_a_picture_prepared_in_a_way_that_is_no_filter(net: nn.Module, picture: Path) -> None:
    sharpened = _pillow(picture, Image.Resampling.BICUBIC)
    sharpened = np.clip(sharpened + 0.2 * (sharpened - sharpened.mean((2, 3), keepdims=True)) ** 2, 0, 1)
    (finding,) = _check_prepared(net, picture, sharpened).findings
    assert finding.cause is None and "resized, cropped or decoded differently" in str(finding.reason)


@pytest.mark.parametrize("mistake", ["channels", "range"])
def test_a_function_that_prepares_its_input_is_found_out_first(
    net: nn.Module, photo: np.ndarray, mistake: str
) -> None:
    change, words = MISTAKES[mistake]

    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        prepared = np.ascontiguousarray(change(x))
        with torch.no_grad():
            hidden = net[0](torch.from_numpy(prepared))  # pyright: ignore[reportIndexIssue]
            out = net[2](torch.relu(hidden))  # pyright: ignore[reportIndexIssue]
        return {"input": prepared, "output": out.numpy(), "0": hidden.numpy()}

    result = twinnet.check(net, torch.from_numpy(photo), twin)
    assert isinstance(result, Result) and result.verdict == "FAIL"
    # The layers did nothing wrong with what they were given.
    (finding,) = result.findings
    assert finding.site.op == "input" and finding.cause is not None and words in finding.cause.sentence
    assert words in " ".join(repr(result).split())


def test_a_function_that_takes_the_input_as_it_is_passes(net: nn.Module, photo: np.ndarray) -> None:
    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            return {"input": x, "output": net(torch.from_numpy(x)).numpy()}

    assert twinnet.check(net, torch.from_numpy(photo), twin).verdict == "PASS"


@pytest.mark.parametrize("with_network", [True, False])
def test_recordings_of_other_preprocessing(
    net: nn.Module, photo: np.ndarray, tmp_path: Path, with_network: bool
) -> None:
    twinnet.record(net, torch.from_numpy(photo), out=tmp_path / "a")
    twinnet.record(net, torch.from_numpy(np.ascontiguousarray(photo[:, ::-1])), out=tmp_path / "b")
    result = twinnet.compare(tmp_path / "a", tmp_path / "b", network=net if with_network else None)
    assert result.verdict == "FAIL"
    first = result.findings[0]
    assert first.cause is not None and "BGR for RGB" in first.cause.sentence
    if with_network:
        assert len(result.findings) == 1


def test_recordings_of_other_data_are_refused(net: nn.Module, photo: np.ndarray, tmp_path: Path) -> None:
    twinnet.record(net, torch.from_numpy(photo), out=tmp_path / "a")
    other = np.random.default_rng(3).random(photo.shape, dtype=np.float32)
    twinnet.record(net, torch.from_numpy(other), out=tmp_path / "b")
    with pytest.raises(twinnet.UsageError, match="not the same in both"):
        twinnet.compare(tmp_path / "a", tmp_path / "b")
