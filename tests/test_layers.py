"""Imports point downwards: a folder uses what stands below it in docs/architecture.md, and nothing above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import twinnet

# One worker reads the sources, once.
SOURCE = Path(twinnet.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"

EXCEPTIONS: dict[tuple[str, str], str] = {}
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
    for name in modules(file):
        yield name.split(".")[1]


@cache
def modules(file: Path) -> tuple[str, ...]:
    """The modules of twinnet, or names in them, that a file loads: "twinnet.lut.plan.Plan"."""
    return tuple(_modules(file))


def _modules(file: Path) -> Iterator[str]:
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
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("twinnet."))


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


def owner(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_nobody_imports_what_another_folder_keeps_to_itself() -> None:
    """Neither a private module nor a private name; for types neither."""
    found = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("twinnet."):
                place = (node.module or "").split(".")
                private = [p for p in (*place, *(a.name for a in node.names)) if p.startswith("_")]
                if private and place[1] != owner(file):
                    found.append(f"{file.relative_to(SOURCE)}:{node.lineno}: {node.module} {private}")
    assert found == []


def test_no_folder_depends_on_itself_by_way_of_others() -> None:
    """Package cycles, imports inside functions included."""
    uses: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        if owner(file) != "__init__":
            uses.setdefault(owner(file), set()).update(set(imports(file)) - {owner(file)})
    excused = {(place.split("/")[0].removesuffix(".py"), folder) for place, folder in EXCEPTIONS}
    left = {folder: {u for u in used if (folder, u) not in excused} for folder, used in uses.items()}
    # What uses nothing that is left is in no cycle.
    while ends := {folder for folder, used in left.items() if not used & left.keys()}:
        left = {folder: used for folder, used in left.items() if folder not in ends}
    assert left == {}


GUESTS = {"lut", "tables"}
HOSTS = {*GUESTS, "restore", "models", "demo", "cli"}
"""Who may know of lookup tables; of the command line, `twinnet lut` only."""


def test_lookup_tables_are_known_by_their_interface_only() -> None:
    found = []
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        knows = owner(file) in HOSTS and (owner(file) != "cli" or place.startswith("cli/lut/"))
        if not knows and GUESTS & set(imports(file)):
            found.append(place)
        if not knows and re.search(
            r'startswith\("lut|getattr\([^()]*, "plan"', file.read_text(encoding="utf-8")
        ):
            found.append(place)
    assert found == []
