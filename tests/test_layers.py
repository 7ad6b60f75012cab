"""Imports point downwards: a folder uses what stands below it in docs/architecture.md, and nothing above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import twinnet

SOURCE = Path(twinnet.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"

EXCEPTIONS = {
    # Words and figures that several levels write.
    ("result/whole.py", "report"): "repr(result) is the screen",
    ("structure/words.py", "report"): "how figures are written",
    ("structure/change.py", "report"): "how results become JSON",
    # A network with a meaning of its own brings a judge of its own.
    ("engines/_plan_judge.py", "judge"): "a judgement is a Born",
    ("engines/_plan_judge.py", "blame"): "its context is blame's",
    ("engines/_table_patch.py", "judge"): "what lies behind a tensor",
}
"""Upward imports that are there, by file and folder, each with its reason. The list only gets shorter."""


@cache
def order() -> dict[str, int]:
    """The folders and files of the page, from the top down; those of one line stand side by side."""
    text = PAGE.read_text(encoding="utf-8")
    block = text[text.index("src/twinnet/\n") :].split("```")[0]
    found: dict[str, int] = {}
    for rank, line in enumerate(block.splitlines()[1:]):
        for word in line.split():
            if not line.startswith("  ") or not re.fullmatch(r"[a-z_]+(/|\.py)", word):
                break
            found[word.removesuffix("/").removesuffix(".py")] = rank
    return found


def imports(file: Path) -> Iterator[str]:
    """The folders of twinnet that a file loads, at once or later; names that only types need load nothing."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "twinnet":
            names = [f"twinnet.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] == "twinnet" and len(parts) > 1:
                yield parts[1]


def upward() -> set[tuple[str, str]]:
    found = set()
    ranks = order()
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE)
        own = place.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for folder in imports(file):
            if folder in ranks and ranks[folder] < ranks[own]:
                found.add((place.as_posix(), folder))
    return found


def test_every_folder_has_its_place() -> None:
    here = {
        p.name.removesuffix(".py")
        for p in SOURCE.iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert here - {"__init__"} == set(order())


def test_imports_point_downwards() -> None:
    assert upward() == set(EXCEPTIONS)


@pytest.mark.parametrize("folder", ["judge", "blame", "pairing", "engines", "layers"])
def test_nothing_below_knows_of_repros(folder: str) -> None:
    loaded = {name for file in (SOURCE / folder).rglob("*.py") for name in imports(file)}
    assert loaded.isdisjoint({"shrink", "report", "cli", "debugger"})
