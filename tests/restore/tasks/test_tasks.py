"""Degradations as published: the images of the test sets, and the scores of doing nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import need_data
from twinnet.lut.pictures import read_picture
from twinnet.restore.config import parse
from twinnet.restore.metrics import psnr
from twinnet.restore.tasks import TASKS, task_of
from twinnet.restore.tasks.deblur import Deblur, blur, motion
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution


@pytest.fixture
def bench():
    return need_data("images", "bench")


def pictures(folder):
    return {path.stem: read_picture(path).pixels for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(("scale", "score"), [(2, 33.67), (3, 30.40), (4, 28.43)])
def test_super_resolution_has_the_published_images_and_bicubic_scores(bench, scale, score):
    task = SuperResolution(scale)
    scores = []
    for name, image in pictures(bench / "Set5/HR").items():
        low, good = task.degrade(image)
        (published,) = (bench / f"Set5/LR_x{scale}").glob(f"{name}*")
        assert np.array_equal(low, read_picture(published).pixels)
        scores.append(task.metrics["PSNR"](task.plain(low), good))
    assert np.mean(scores) == pytest.approx(score, abs=0.005)


def test_noise_is_that_of_the_published_testers(bench):
    image = read_picture(bench / "Set12/HR/01.png").pixels
    low, good = Denoise(25).degrade(image)
    np.random.seed(0)
    theirs = image / 255 + np.random.normal(0, 25 / 255, image.shape)
    assert np.abs(low / 255 - theirs).max() < 1e-6
    assert np.array_equal(good, image)
    again, _ = Denoise(25).degrade(image)
    assert np.array_equal(low, again)


def test_jpeg_scores(bench):
    task = TASKS["deblock"](10)
    scores = []
    for image in pictures(bench / "classic5/HR").values():
        low, good = task.degrade(image)
        scores.append([score(task.plain(low), good) for score in task.metrics.values()])
    # The published scores of JPEG itself on classic5 at quality 10: 27.82, 0.760, 25.21.
    assert np.mean(scores, axis=0) == pytest.approx([27.82, 0.760, 25.21], abs=0.01)


def test_gray_and_colour_images():
    gray = np.random.default_rng(0).integers(0, 256, (33, 37), dtype=np.uint8)
    colour = np.repeat(gray[..., None], 3, axis=2)
    shapes = {"sr": (8, 9), "denoise": (33, 37), "deblock": (33, 37), "deblur": (33, 37, 3)}
    for name, kind in TASKS.items():
        for image in (gray, colour):
            low, good = kind().degrade(image)
            wanted = (*shapes[name], 3) if name == "sr" and image.ndim == 3 else shapes[name]
            assert low.shape == wanted, name
            assert good.dtype == np.uint8
            restored = kind().plain(low)
            assert restored.dtype == np.uint8 and restored.shape == good.shape
            assert all(np.isfinite(score(restored, good)) for score in kind().metrics.values())
    assert Denoise(10, colour=True).degrade(gray)[1].shape == (33, 37, 3)


def test_motion_blurs_along_its_path():
    random = np.random.default_rng(1)
    for longest in (1, 2, 3, 9, 24):
        for _ in range(20):
            kernel = motion(longest, random)
            assert kernel.sum() == pytest.approx(1) and kernel.min() >= 0 and len(kernel) <= longest
            assert len(kernel) % 2 == 1
    image = np.zeros((9, 9), np.uint8)
    image[4, 4] = 200
    along = np.zeros((3, 3))
    along[1] = 1 / 3
    assert blur(image, along)[4].tolist() == [0, 0, 0, 67, 67, 67, 0, 0, 0]
    texture = random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    assert psnr(Deblur(9).degrade(texture)[0], texture) < 20


def test_the_task_of_a_config():
    words = {
        "[model]\nscale = 3\n[data]\nbicubic = 'once'": "sr x3, bicubic once",
        "[model]\ntask = 'denoise'\nscale = 1\n[data]\nsigma = 15.0\ncolour = true": "denoise sigma 15, colour",
        "[model]\ntask = 'deblock'\nscale = 1\n[data]\nquality = 40": "deblock JPEG quality 40",
        "[model]\ntask = 'deblur'\nscale = 1\n[data]\nblur = 5": "deblur motion up to 5",
    }
    for text, described in words.items():
        assert task_of(parse(f"version = 1\n{text}\n")).describe() == described
