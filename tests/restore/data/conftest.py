"""Folders of pictures, good and bad."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from twinnet.restore.sample import scene, write_samples

__all__ = ["photos"]


@pytest.fixture
def photos(tmp_path):
    """Six scenes in several formats, one of them gray, one in a folder below."""
    folder = tmp_path / "photos"
    write_samples(folder, 3, rows=48, columns=64)
    Image.fromarray(scene(9, 40, 40)).save(folder / "lossy.jpg", quality=95)
    Image.fromarray(scene(10, 40, 44)).convert("L").save(folder / "gray.pgm")
    (folder / "below").mkdir()
    rgba = np.dstack([scene(11, 44, 40), np.full((44, 40), 9, np.uint8)])
    Image.fromarray(rgba).save(folder / "below" / "clear.png")
    return folder
