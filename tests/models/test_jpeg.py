"""The quality of JPEG files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from twinnet.models.jpeg import quality_of
from twinnet.restore.sample import scene


@pytest.mark.parametrize("quality", [5, 10, 20, 37, 50, 75, 95, 100])
def test_the_quality_of_a_jpeg_is_read_from_it(quality: int, tmp_path: Path) -> None:
    Image.fromarray(scene(1, 24, 32)).save(tmp_path / "a.jpg", quality=quality)
    assert quality_of(tmp_path / "a.jpg") == pytest.approx(quality, abs=1 if quality < 95 else 5)
    Image.fromarray(scene(1, 24, 32)).save(tmp_path / "a.png")
    (tmp_path / "b.jpg").write_text("text")
    assert quality_of(tmp_path / "a.png") is None and quality_of(tmp_path / "b.jpg") is None
