"""Recipes stay within their budgets, and the tables that are there were made with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.shipped_tables.make import is_made
from tools.shipped_tables.recipes import RECIPES, settings

from twinnet import models
from twinnet.lut.describe import lookups
from twinnet.lut.model import load
from twinnet.restore.config import parse, template
from twinnet.restore.fit import check_stages
from twinnet.restore.fit.cascade import stage_layouts
from twinnet.restore.sample import scene

HERE = Path(models.__file__).parent
LIMITS = {"fast": (8, 256 << 10), "strong": (36, int(0.6 * (1 << 20))), "best": (None, int(2.5 * (1 << 20)))}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_possible_and_within_their_budget(name: str) -> None:
    values = settings(name, "/nowhere")
    config = parse(template(values))
    stages = config.fit.cascade(config.model.scale)
    check_stages(stages, config.model.scale)
    size = sum(layout.nbytes for stage in stages for layout in stage_layouts(stage))
    scales, count = {"input": 1}, 0
    for number, stage in enumerate(stages, start=1):
        source = stage.sources[0] if stage.sources else f"stage{number - 1}" if number > 1 else "input"
        sites = (scales[source] // stage.cell) ** 2
        count += 4 * sites * len(stage_layouts(stage))
        scales[f"stage{number}"] = scales[source] // stage.cell * stage.upscale
    most, limit = LIMITS[name.rpartition("-")[2]] if name.startswith("sr") else (None, 1 << 20)
    assert size <= limit
    assert most is None or count <= most


def test_everything_asked_for_has_a_recipe() -> None:
    wanted = {
        f"sr-x{s}-{q}" for s in (2, 3, 4) for q in models.QUALITIES if q != "best" or s not in models.NO_BEST
    }
    wanted |= {f"{task}-{level}" for task, (_, levels) in models.LEVELS.items() for level in levels}
    assert wanted == set(RECIPES)


@pytest.mark.parametrize("name", models.available())
def test_shipped_tables_match_their_log_and_keep_their_limits(name: str) -> None:
    log = json.loads((HERE / name / "log.json").read_text())
    model = load(HERE / name / f"{name}.lut.safetensors")
    size, count = sum(t.nbytes for t in model.plan.tables.values()), lookups(model.plan)
    assert (size, count) == (log["bytes"], log["lookups"])
    most, limit = LIMITS[name.rpartition("-")[2]] if name.startswith("sr") else (None, 1 << 20)
    assert size <= limit and (most is None or count <= most)
    assert is_made(name), f"its recipe is another one now: run `python -m tools.shipped_tables.make {name}`"
    assert log["seconds"] > 0 and log["cpu_seconds"] > 0 and log["environment"]
    image = scene(5, 40, 48)
    assert model(image).shape == (40 * model.scale, 48 * model.scale, 3)
