"""Everything about an engine is on its class: no two claim the same, and what they state is true."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import twinnet
from twinnet.engines import BUILT_IN, all_engines, engine_for_format, find_engine, register, standalone_of
from twinnet.engines.base import Engine
from twinnet.environment import environment, version_of
from twinnet.errors import UsageError

SOURCE = Path(twinnet.__file__).parent


def test_no_two_engines_claim_the_same_files_or_formats() -> None:
    # A class that inherits a claim (lut-native from lut) does not make it a second time.
    owners = [engine for engine in all_engines() if engine.__base__ is Engine]
    for claim in ("suffixes", "formats"):
        claimed = Counter(item for engine in owners for item in getattr(engine, claim))
        assert claimed and max(claimed.values()) == 1, claimed


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_what_an_engine_states_fits_together(name: str) -> None:
    engine = find_engine(name)
    assert set(engine.as_written) <= set(engine.options)
    # What runs ONNX can show a fault without twinnet; what says it can otherwise runs parts of its own format.
    alone = engine.standalone()
    assert (alone is not None and alone.takes_onnx) == (engine.takes == "onnx")
    overridden = type(engine).save_optimised is not Engine.save_optimised
    assert engine.abilities.optimised == overridden
    for package in engine.packages:
        if version_of(package) is not None:
            assert environment()[package] == version_of(package)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if standalone_of(name) is not None])
def test_what_goes_into_a_repro_uses_nothing_of_twinnet(name: str) -> None:
    alone = standalone_of(name)
    assert alone is not None
    known = {function.__name__ for function in (alone.run, *alone.helpers)}
    for function in (alone.run, *alone.helpers):
        source = inspect.getsource(function)
        assert "twinnet" not in source
        tree = ast.parse(source)
        called = {
            n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        made = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        builtin = set(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
        local = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        assert called <= known | made | builtin | local, called - known - made - builtin - local


def test_nobody_lists_engines_elsewhere() -> None:
    """A name of an engine that is compared, or is a key, belongs on the engine's class."""
    names = "|".join(re.escape(name) for name in BUILT_IN if name not in ("torch", "command"))
    compared = re.compile(rf"(?:==|!=|\bin) \(?\"(?:{names})\"|\"(?:{names})\":|startswith\(\"lut")
    found = []
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE)
        if place.parts[0] not in ("engines", "tables", "cli", "lut"):
            lines = file.read_text(encoding="utf-8").splitlines()
            found += [
                f"{place}:{n}: {line.strip()}" for n, line in enumerate(lines, 1) if compared.search(line)
            ]
    assert not found, found


def test_registered_engines_are_known_by_name() -> None:
    class Mine(Engine):
        name = "mine"
        formats = ("clay tablet",)

        def version(self) -> str:
            return "1"

        def open(self, network, options, file, job):
            raise NotImplementedError

    from twinnet.engines import registry

    try:
        assert register(Mine) is Mine
        assert isinstance(find_engine("mine"), Mine)
        assert engine_for_format("clay tablet") is Mine
        assert registry.origin_of("mine") == __name__
    finally:
        registry._REGISTERED.pop("mine")
    with pytest.raises(UsageError, match="twinnet already has an engine 'torch'"):
        register(type("Torch", (Mine,), {"name": "torch"}))
