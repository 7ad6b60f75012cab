"""MATLAB's bicubic: the published low-resolution images, sample by sample."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lut.conftest import SET5
from twinnet.errors import UsageError
from twinnet.restore.bicubic import modcrop, shrink

SETS = [("LR_bicubic/X4", 4, "matlab"), ("LR_bicubic/X2", 2, "matlab"), ("LR_bicubic/X3", 3, "matlab"),
        ("LR_srlut_x4", 4, "once")]  # fmt: skip


@pytest.mark.parametrize(("folder", "scale", "recipe"), SETS)
def test_published_images(data, picture, folder, scale, recipe):
    for name in SET5:
        high = picture(data / f"lut-data/Set5/HR/{name}.png")
        low = picture(data / "lut-data/Set5" / folder / f"{name}.png")
        assert np.array_equal(shrink(high, scale, recipe), low)


def test_the_two_recipes_differ(data, picture):
    high = picture(data / "lut-data/Set5/HR/baby.png")
    gap = np.abs(shrink(high, 4).astype(int) - shrink(high, 4, "once"))
    assert 0.05 < (gap > 0).mean() < 0.2 and gap.max() <= 2


def test_small_and_wrong_images():
    assert shrink(np.full((1, 1), 9, np.uint8), 4).tolist() == [[9]]
    assert shrink(np.full((5, 2, 3), 9, np.uint8), 3).shape == (2, 1, 3)
    assert np.array_equal(shrink(np.arange(12, dtype=np.uint8).reshape(3, 4), 1), np.arange(12).reshape(3, 4))
    assert modcrop(np.zeros((7, 9)), 4).shape == (4, 8)
    good = np.zeros((4, 4), np.uint8)
    wrong = [(good.astype(float), 2, "matlab"), (good[:0], 2, "matlab"), (good, 0, "matlab"), (good, 2, "x")]
    for image, scale, recipe in wrong:
        with pytest.raises(UsageError):
            shrink(image, scale, recipe)
