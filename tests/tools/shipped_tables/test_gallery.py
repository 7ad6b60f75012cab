"""The gallery is that of the shipped tables."""

from __future__ import annotations

import numpy as np
from PIL import Image
from tools.shipped_tables.gallery import PAGE, PICTURES, make


def test_the_page_and_its_pictures_are_what_the_tables_give(tmp_path):
    hint = "run `python -m tools.shipped_tables.gallery`"
    assert make(tmp_path) == PAGE.read_text(), hint
    assert len(PICTURES) == 8
    for picture in PICTURES:
        made, kept = (
            np.asarray(Image.open(folder / f"{picture.name}.png")).astype(int)
            for folder in (tmp_path, PAGE.parent / "gallery")
        )
        # Fonts and JPEG decoders differ a little between versions.
        assert made.shape == kept.shape and np.abs(made - kept).mean() < 2, hint
