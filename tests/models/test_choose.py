"""A folder of JPEGs: each is repaired by the tables nearest to its own quality."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from twinnet import models
from twinnet.cli.main import app
from twinnet.lut.model import load
from twinnet.restore.sample import scene


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    photo = Image.fromarray(scene(1, 48, 64))
    for name, quality in (("a", 9), ("b", 22), ("c", 90)):
        photo.save(tmp_path / "in" / f"{name}.jpg", quality=quality)
    photo.save(tmp_path / "in" / "d.png")
    return tmp_path


def call(*words):
    return CliRunner().invoke(app, ["lut", "run", *map(str, words)])


def test_each_by_its_own_quality(folder):
    done = call(folder / "in", "--task", "deblock", "-o", folder / "out", "-q")
    assert done.exit_code == 0, done.output
    for name, level in (("a.jpg", 10), ("b.jpg", 20), ("c.jpg", 40), ("d.png", 20)):
        made = np.asarray(Image.open(folder / "out" / f"{name[0]}.png"))
        expected = load(models.find("deblock", level=level))(np.asarray(Image.open(folder / "in" / name)))
        assert np.array_equal(made, expected), name
    for line in (
        "1 file(s) of quality 9: tables for 10",
        "1 file(s) of quality 22: tables for 20",
        "1 file(s) that are not JPEG: tables for 20",
        "better than quality 80",
    ):
        assert line in done.output


def test_nothing_is_overwritten_unless_said(folder):
    words = (folder / "in" / "a.jpg", "--task", "deblock", "-o", folder / "a.png", "-q")
    assert call(*words).exit_code == 0
    again = call(*words)
    assert "--overwrite" in str(again.exception)
    assert call(*words, "--overwrite").exit_code == 0
    done = call(folder / "in", "--task", "sr", "--scale", 2, "-o", folder / "out", "-q")
    assert "4 file(s)" in done.output
    done = call(folder / "in", "--task", "sr", "--scale", 2, "-o", folder / "out", "-q")
    assert "kept      4 existing file(s)" in done.output and "written   0" in done.output


def test_sizes_and_qualities_of_results(folder):
    small, large = folder / "small.png", folder / "large.png"
    for target, level in ((small, 9), (large, 0)):
        call(folder / "in" / "d.png", "--task", "sr", "-o", target, "--compress", level, "-q")
    assert small.stat().st_size < large.stat().st_size
    assert np.array_equal(np.asarray(Image.open(small)), np.asarray(Image.open(large)))
    rough, fine = folder / "rough.jpg", folder / "fine.jpg"
    call(folder / "in" / "d.png", "--task", "sr", "-o", rough, "--save-quality", 30, "-q")
    call(folder / "in" / "d.png", "--task", "sr", "-o", fine, "-q")
    assert rough.stat().st_size < fine.stat().st_size


def test_best_at_x2_is_strong():
    done = call("a.png", "--task", "sr", "--scale", 2, "--quality", "best")
    assert "no better than strong" in str(done.exception) and "fast or strong" in str(done.exception)
