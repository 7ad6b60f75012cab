"""Models are made once, go on when interrupted, and are scored when they are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.shipped_tables.recipes import RECIPES
from tools.shipped_tables.refresh import read_scores

from tools.shipped_tables import board as board_module
from tools.shipped_tables import make as building
from twinnet.lut.model import load
from twinnet.restore.fit import cascade
from twinnet.restore.sample import scene, write_samples


def test_what_cannot_be_made(tmp_path: Path) -> None:
    assert building.main(["--data", str(tmp_path)]) == 2
    write_samples(tmp_path / "images" / "train", 1, rows=32, columns=32)
    assert building.main(["--data", str(tmp_path), "sr-x9-fast"]) == 2


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with few images, a folder for models of its own, and a quick recipe of two stages."""
    images = tmp_path / "images"
    for folder, first, count in (("train/CID22", 0, 4), ("train/gb82", 10, 1), ("valid/CID22", 20, 1)):
        write_samples(images / folder, count, rows=64, columns=64, first=first)
    write_samples(images / "bench" / "classic5", 2, rows=48, columns=48, first=30)
    monkeypatch.setattr(building, "HERE", tmp_path / "shipped")
    monkeypatch.setattr(building, "SCORES", tmp_path / "scores.json")
    monkeypatch.setattr(building, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text("<!-- scores: models -->\n<!-- end -->")
    stage = {"patterns": "V", "upscale": 1, "cell": 1, "interval": 5, "band": 0}
    recipe = {"preset": "own", "stages": [stage, stage], "iterations": [3]}
    monkeypatch.setitem(RECIPES, "deblock-20", {"data": {"quality": 20}, "fit": recipe})
    return tmp_path


def test_a_model_is_made_once_and_again_when_its_recipe_changes(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["deblock-20", "--data", str(small), "--work", str(small / "work"), "-q"]
    assert building.main(words) == 0
    path = small / "shipped" / "deblock-20" / "deblock-20.lut.safetensors"
    told = capsys.readouterr().out
    assert "fitting" in told and "s of CPU" in told and "classic5" in told
    row = read_scores(small / "scores.json")["boards"]["deblock-20"]["rows"]
    assert [r["name"].partition(",")[0] for r in row] == [
        "JPEG", "Gaussian", "bilateral", "non-local means", "deblock-20",
    ]  # fmt: skip
    text = (path.parent / "card.md").read_text()
    assert "`deblock-20`" in text and "PSNR-B" in text and "blocks elsewhere" in text
    assert "| `deblock-20` |" in (small / "page.md").read_text()
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(board_module, "score", None)  # nothing may be scored again
    assert building.main(words) == 0 and "is there" in capsys.readouterr().out
    assert path.stat().st_mtime_ns == before
    changed = {**RECIPES["deblock-20"]["fit"], "iterations": [2]}
    monkeypatch.setitem(RECIPES, "deblock-20", {"data": {"quality": 20}, "fit": changed})
    assert building.main([*words, "--no-cards"]) == 0
    assert path.stat().st_mtime_ns != before


def test_an_interrupted_model_goes_on_where_it_was(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["deblock-20", "--data", str(small), "--no-cards", "-q", "--work"]
    fitted, real = [], cascade.fit_prepared

    def until(count: int):
        def fit(stage, ready, *rest):
            if len(fitted) == count:
                raise KeyboardInterrupt
            fitted.append(ready.name)
            return real(stage, ready, *rest)

        return fit

    monkeypatch.setattr(cascade, "fit_prepared", until(1))
    assert building.main([*words, str(small / "work")]) == 130
    path = small / "shipped" / "deblock-20" / "deblock-20.lut.safetensors"
    assert fitted == ["stage1"] and not path.exists()
    monkeypatch.setattr(cascade, "fit_prepared", until(9))
    assert building.main([*words, str(small / "work")]) == 0
    assert fitted == ["stage1", "stage2"]
    went_on = path.read_bytes()
    assert building.main([*words, str(small / "other"), "--force"]) == 0
    assert fitted == ["stage1", "stage2", "stage1", "stage2"]
    assert np.array_equal(load(path)(scene(5, 40, 48)), _run(went_on, small))


def _run(tables: bytes, folder: Path) -> np.ndarray:
    path = folder / "again.lut.safetensors"
    path.write_bytes(tables)
    return load(path)(scene(5, 40, 48))
