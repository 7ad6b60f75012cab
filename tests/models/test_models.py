"""Shipped tables: recipes stay within their budgets, tables do what their cards say, and the verb finds them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.needs import need_data
from twinnet import models
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.lut.model import load
from twinnet.models import build as building
from twinnet.models.recipes import RECIPES, settings
from twinnet.restore.config import parse, template
from twinnet.restore.fit import check_stages
from twinnet.restore.fit.cascade import stage_layouts
from twinnet.restore.sample import scene, write_samples

LIMITS = {"fast": (8, 256 << 10), "strong": (36, int(0.6 * (1 << 20))), "best": (None, int(2.5 * (1 << 20)))}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_possible_and_within_their_budget(name: str) -> None:
    values = settings(name, "/nowhere")
    config = parse(template(values))
    stages = config.fit.cascade(config.model.scale)
    check_stages(stages, config.model.scale)
    size = sum(layout.nbytes for stage in stages for layout in stage_layouts(stage))
    scales, lookups = {"input": 1}, 0
    for number, stage in enumerate(stages, start=1):
        source = stage.sources[0] if stage.sources else f"stage{number - 1}" if number > 1 else "input"
        sites = (scales[source] // stage.cell) ** 2
        lookups += 4 * sites * len(stage_layouts(stage))
        scales[f"stage{number}"] = scales[source] // stage.cell * stage.upscale
    most, limit = LIMITS[name.rpartition("-")[2]] if name.startswith("sr") else (None, 1 << 20)
    assert size <= limit
    assert most is None or lookups <= most


def test_everything_asked_for_has_a_recipe() -> None:
    wanted = {f"sr-x{s}-{q}" for s in (2, 3, 4) for q in models.QUALITIES}
    wanted |= {f"{task}-{level}" for task, (_, levels) in models.LEVELS.items() for level in levels}
    assert wanted == set(RECIPES)


@pytest.mark.parametrize("name", models.available())
def test_shipped_tables_match_their_log_and_card(name: str) -> None:
    folder = Path(models.__file__).parent / name
    log = json.loads((folder / "log.json").read_text())
    model = load(folder / f"{name}.lut.safetensors")
    assert sum(t.nbytes for t in model.plan.tables.values()) == log["bytes"]
    assert log["recipe"] == json.loads(json.dumps(settings(name, "")["fit"]))
    card = (folder / "card.md").read_text()
    assert "CID22" in card and f"{log['bytes']:,}" in card
    image = scene(5, 40, 48)
    assert model(image).shape == (40 * model.scale, 48 * model.scale, 3)


@pytest.mark.parametrize("name", [n for n in models.available() if n.startswith("sr")])
def test_shipped_tables_reach_the_scores_of_their_card(name: str) -> None:
    from twinnet.restore.metrics import psnr_y

    bench = need_data("images", "bench", "Set5")
    log = json.loads((Path(models.__file__).parent / name / "log.json").read_text())
    model = load(models.find("sr", scale=int(name[4]), quality=name.rpartition("-")[2]))
    scores = []
    for path in sorted((bench / "HR").iterdir()):
        low = next((bench / f"LR_x{model.scale}").glob(f"{path.stem}*"))
        made = model(np.asarray(Image.open(low).convert("RGB")))
        good = np.asarray(Image.open(path).convert("RGB"))
        rows, columns = min(good.shape[0], made.shape[0]), min(good.shape[1], made.shape[1])
        scores.append(psnr_y(made[:rows, :columns], good[:rows, :columns], model.scale))
    assert float(np.mean(scores)) == pytest.approx(log["scores"]["Set5"]["tables"]["PSNR"], abs=0.02)


@pytest.mark.skipif("sr-x4-strong" not in models.available(), reason="no tables in this checkout")
def test_the_verb_names_the_result_after_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(scene(1, 12, 14)).save("in.png")
    done = CliRunner().invoke(app, ["lut", "run", "in.png", "--task", "sr", "--quality", "fast"])
    assert done.exit_code == 0, done.output
    assert Image.open("in-sr-x4-fast.png").size == (56, 48)


def test_the_verb_needs_no_file(tmp_path: Path) -> None:
    Image.fromarray(scene(1, 30, 40)).save(tmp_path / "in.png")
    out = tmp_path / "out.png"
    done = CliRunner().invoke(app, ["lut", "run", str(tmp_path / "in.png"), "--task", "sr", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert Image.open(out).size == (160, 120)


def test_questions_without_an_answer(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no quality"):
        models.find("sr", quality="superb")
    with pytest.raises(UsageError, match="no tables named"):
        models.find("sr", scale=7)
    with pytest.raises(UsageError, match="sigma 17"):
        models.find("denoise", level=17)
    with pytest.raises(UsageError, match="colourise"):
        models.find("colourise")
    with pytest.raises(UsageError, match="which tables"):
        CliRunner().invoke(app, ["lut", "run", "a.png", "-o", str(tmp_path)], catch_exceptions=False)
    assert building.main(["--data", str(tmp_path)]) == 2


def test_a_model_is_made_once_and_again_when_its_recipe_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = tmp_path / "images"
    for folder, first, count in (("train/CID22", 0, 4), ("train/gb82", 10, 1), ("valid/CID22", 20, 1)):
        write_samples(images / folder, count, rows=64, columns=64, first=first)
    write_samples(images / "bench" / "classic5", 1, rows=48, columns=48, first=30)
    monkeypatch.setattr(building, "HERE", tmp_path / "shipped")
    small = {
        "preset": "own",
        "stages": [{"patterns": "V", "upscale": 1, "cell": 1, "interval": 5, "band": 0}],
    }
    monkeypatch.setitem(RECIPES, "deblock-20", {"data": {"quality": 20}, "fit": small})
    path = building.build("deblock-20", images, tmp_path / "work", quiet=True)
    log = json.loads((path.parent / "log.json").read_text())
    assert set(log["scores"]["classic5"]) >= {"JPEG", "tables", "bilateral", "non-local means"}
    card = (path.parent / "card.md").read_text()
    assert "| tables |" in card and "PSNR-B" in card
    before = path.stat().st_mtime_ns
    assert building.build("deblock-20", images, tmp_path / "work", quiet=True).stat().st_mtime_ns == before
    changed = {**small, "iterations": [2]}
    monkeypatch.setitem(RECIPES, "deblock-20", {"data": {"quality": 20}, "fit": changed})
    assert building.build("deblock-20", images, tmp_path / "work", quiet=True).stat().st_mtime_ns != before
