"""Scores, cards and the page on shipped tables belong to the tables that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.shipped_tables.board import content_key
from tools.shipped_tables.cards import card
from tools.shipped_tables.docs_page import PAGE, rendered
from tools.shipped_tables.recipes import RECIPES
from tools.shipped_tables.refresh import read_scores

from tests.needs import need_data
from twinnet import models
from twinnet.errors import UsageError
from twinnet.models.evaluate import board_of, task_of_board
from twinnet.restore.benchmarks import benchmarks_in
from twinnet.restore.candidates import tables_candidate
from twinnet.restore.evaluate import score

HERE = Path(models.__file__).parent


def test_scores_belong_to_the_tables_that_are_there() -> None:
    scores = read_scores()
    hint = "run `python -m tools.shipped_tables.make --cards`"
    assert list(scores["models"]) == [name for name in RECIPES if name in models.available()], hint
    for name, facts in scores["models"].items():
        board = scores["boards"][board_of(name)]
        row = next(row for row in board["rows"] if row["name"] == name)
        path = HERE / name / f"{name}.lut.safetensors"
        assert row["key"] == facts["key"] == content_key(task_of_board(board_of(name)), path), (name, hint)
        assert row["scores"] and row["ratio"] and facts["cases"]


@pytest.mark.parametrize("name", models.available())
def test_cards_are_those_of_the_scores(name: str) -> None:
    scores = read_scores()
    log = json.loads((HERE / name / "log.json").read_text())
    text = (HERE / name / "card.md").read_text()
    assert text == card(log, scores["boards"][board_of(name)], scores["models"][name])
    own = next(r for r in scores["boards"][board_of(name)]["rows"] if r["name"] == name)
    disk = (HERE / name / f"{name}.lut.safetensors").stat().st_size
    assert "CID22" in text and f"{disk:,} bytes on disk" in text and own["worst"]["image"] in text
    for kind in ("full range", "studio range", "colour", "text", "gradients", "noise", "held out"):
        assert kind in text
    assert own["bytes"] == disk and "times MuLUT" in text and "## Flat areas" in text


def test_the_page_is_that_of_the_scores() -> None:
    text = PAGE.read_text()
    assert rendered(text, read_scores()) == text, "run `python -m tools.shipped_tables.make --cards`"
    assert text.count("<!-- scores: ") == text.count("<!-- end -->") >= 8
    with pytest.raises(UsageError, match="asks for sr-x9"):
        rendered("<!-- scores: sr-x9 -->\n<!-- end -->", {"boards": {}, "models": {}})


@pytest.mark.parametrize("name", models.available())
def test_shipped_tables_reach_the_scores_of_their_card(name: str) -> None:
    task = task_of_board(board_of(name))
    scores = read_scores()["boards"][board_of(name)]
    bench = next(iter(scores["benchmarks"]))
    found, _ = benchmarks_in(need_data("images", "bench"), task, [bench])
    model = tables_candidate(HERE / name / f"{name}.lut.safetensors", name, task)
    ((*_, row), _) = score(task, found, [model])
    stated = next(r for r in scores["rows"] if r["name"] == name)["scores"][bench]
    assert row.scores == pytest.approx(stated, abs=0.0011)
