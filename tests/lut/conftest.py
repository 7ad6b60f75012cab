"""What the tests of table networks share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.needs import need_data

SET5 = ("baby", "bird", "butterfly", "head", "woman")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of published tables and golden images."""
    return need_data()


@pytest.fixture(scope="session")
def picture():
    """Reads an image as an RGB array."""
    from PIL import Image

    return lambda path: np.asarray(Image.open(path).convert("RGB"))


@pytest.fixture
def noise() -> np.ndarray:
    """A small plane with every kind of neighbourhood, with 0 and 255 in it."""
    plane = np.random.default_rng(7).integers(0, 256, (9, 7), np.uint8)
    plane[0, :3] = 255
    plane[4, 2:5] = 0
    return plane
