"""Scores, cards and the page on shipped tables, without fitting anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.shipped_tables.board import fill
from tools.shipped_tables.cards import card
from tools.shipped_tables.docs_page import rendered
from tools.shipped_tables.recipes import RECIPES
from tools.shipped_tables.unusual_inputs import cases, measured
from twinnet.errors import UsageError
from twinnet.files import atomic_write
from twinnet.lut.file import read
from twinnet.lut.flat import flatness
from twinnet.models import available
from twinnet.models.evaluate import board_of, task_of_board
from twinnet.progress import progress
from twinnet.restore.candidates import tables_candidate

__all__ = ["SCORES", "read_scores", "refresh", "write_cards"]

SCORES = Path(__file__).parent / "scores.json"


def read_scores(path: Path = SCORES) -> dict[str, Any]:
    """What `scores.json` holds; nothing yet if it is not there."""
    return json.loads(path.read_text()) if path.is_file() else {"version": 1, "boards": {}, "models": {}}


def refresh(
    here: Path,
    data: Path,
    names: Sequence[str] = (),
    *,
    kept: Path = SCORES,
    page: Path | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Score the models in `here` (those named, with all others of their boards) and write everything about them.

    `page` is written, too, once all models have scores. What did not change since the scores in `kept` is not scored
    again. All is written after every board, so an interrupted refresh loses one board at most.
    """
    from twinnet.environment import environment

    found = available(here)
    order = [name for name in RECIPES if name in found]
    wanted = {board_of(name) for name in (names or order)}
    scores = read_scores(kept)
    boards = [b for b in dict.fromkeys(map(board_of, order)) if b in wanted]
    if not boards:
        raise UsageError("none of these models is there", hint=f"there are: {', '.join(order) or 'none'}")
    with progress(quiet=quiet) as watch:
        for board in boards:
            filled = fill(board, here, data, scores["boards"].get(board), watch)
            scores["boards"][board] = filled
            for name in (name for name in order if board_of(name) == board):
                watch(f"{name}: inputs of other kinds", 0.0)
                scores["models"][name] = _model(name, here, data, filled, scores["models"].get(name))
            _sort(scores, order)
            scores["environment"] = environment()
            atomic_write(kept, (json.dumps(scores, indent=1) + "\n").encode())
            write_cards(here, scores, [name for name in order if board_of(name) == board])
    if page is not None and page.is_file() and len(scores["models"]) == len(found):
        atomic_write(page, rendered(page.read_text(), scores).encode())
    return scores


def _model(
    name: str, here: Path, data: Path, board: dict[str, Any], kept: dict[str, Any] | None
) -> dict[str, Any]:
    log = json.loads((here / name / "log.json").read_text())
    key = next(row["key"] for row in board["rows"] if row["name"] == name)
    path = here / name / f"{name}.lut.safetensors"
    facts = {k: log[k] for k in ("bytes", "lookups", "seconds", "cpu_seconds")}
    facts |= {"disk": path.stat().st_size, "flatness": asdict(flatness(read(path).plan)), "key": key}
    if kept is not None and kept["key"] == key:
        return {**facts, "cases": kept["cases"]}
    task = task_of_board(board_of(name))
    model = tables_candidate(path, name, task)
    return {**facts, "cases": measured(task, model, cases(task, data))}


def _sort(scores: dict[str, Any], order: Sequence[str]) -> None:
    """Boards and models in the order of the recipes; what is not there any more goes."""
    boards = list(dict.fromkeys(map(board_of, order)))
    scores["boards"] = {b: scores["boards"][b] for b in boards if b in scores["boards"]}
    scores["models"] = {m: scores["models"][m] for m in order if m in scores["models"]}


def write_cards(here: Path, scores: dict[str, Any], names: Sequence[str]) -> None:
    """The cards of some models, from their logs and `scores.json`."""
    for name in names:
        log = json.loads((here / name / "log.json").read_text())
        text = card(log, scores["boards"][board_of(name)], scores["models"][name])
        atomic_write(here / name / "card.md", text.encode())
