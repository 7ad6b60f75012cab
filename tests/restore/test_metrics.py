"""Scores against published ones, and against their definitions written out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.lut.conftest import SET5
from twinnet.errors import UsageError
from twinnet.restore.bicubic import modcrop
from twinnet.restore.metrics import luma, luma_8bit, psnr, psnr_b, psnr_y, ssim, ssim_y


def test_published_scores(data, picture):
    golden = json.loads((data / "lut-golden/golden.json").read_text())["mulut_ft"]
    for k, name in enumerate(SET5):
        truth = modcrop(picture(data / f"lut-data/Set5/HR/{name}.png"), 4)
        result = picture(data / f"lut-golden/mulut_x2sdy_x4_ref/{name}_LUT_ft_4bit.png")
        assert psnr_y(result, truth, shave=4) == pytest.approx(golden["psnr"][k], abs=2e-5)
        assert ssim_y(result, truth) == pytest.approx(golden["ssim"][k], abs=2e-6)


def _psnr_b_by_loops(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x / 255, y / 255
    h, w = x.shape
    edge = other = 0.0
    for i in range(h):
        for j in range(w - 1):
            step = (x[i, j] - x[i, j + 1]) ** 2
            edge, other = (edge + step, other) if j % 8 == 7 else (edge, other + step)
    for j in range(w):
        for i in range(h - 1):
            step = (x[i, j] - x[i + 1, j]) ** 2
            edge, other = (edge + step, other) if i % 8 == 7 else (edge, other + step)
    n = h * (w // 8 - 1) + w * (h // 8 - 1)
    excess = edge / n - other / (h * (w - 1) + w * (h - 1) - n)
    bef = 3 / np.log2(min(h, w)) * excess if excess > 0 else 0.0
    return 10 * np.log10(1 / (np.mean((x - y) ** 2) + bef))


def test_psnr_b_is_its_definition():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 256, (24, 32)).astype(np.float64)
    blocky = np.kron(rng.integers(90, 160, (3, 4)), np.ones((8, 8))) + rng.integers(0, 3, (24, 32))
    smooth = truth + rng.integers(-5, 6, truth.shape)
    for image in (blocky, smooth):
        assert psnr_b(image, truth) == pytest.approx(_psnr_b_by_loops(image, truth), abs=1e-9)
    assert psnr_b(blocky, truth) < psnr(blocky, truth)


def test_luma():
    image = np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8)
    assert np.abs(luma(image) - luma_8bit(image)).max() <= 0.51
    assert luma(np.zeros((1, 1, 3)))[0, 0] == 16 and luma(image[..., 0]).dtype == np.float64


def test_limits():
    a = np.zeros((20, 20))
    assert psnr(a, a) == float("inf")
    for call in (lambda: psnr(a, a[1:]), lambda: psnr(a, a, shave=10), lambda: ssim(a[:5], a[:5]),
                 lambda: psnr_b(a[:8], a[:8]), lambda: luma(np.zeros((2, 2, 4)))):  # fmt: skip
        with pytest.raises(UsageError):
            call()
