"""Benchmarks run programs that stand in strings, where no checker looks: the names they import exist."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))


def _programs(file: Path) -> Iterator[ast.Module]:
    """The strings of a file that are programs, and the file itself."""
    whole = ast.parse(file.read_text(encoding="utf-8"))
    yield whole
    for node in ast.walk(whole):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:
                yield ast.parse(node.value)
            except SyntaxError:  # prose, or a program with places to fill
                continue


def _imported(program: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "twinnet":
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_benchmark_imports_exists(file: Path) -> None:
    for program in _programs(file):
        for module, name in _imported(program):
            found = importlib.import_module(module)
            if not hasattr(found, name):
                importlib.import_module(f"{module}.{name}")
