"""Every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import tools
import twinnet
from tests.needs import absent
from twinnet.errors import EngineError, MissingExtra

_FOUND = (
    module.name
    for package in (twinnet, tools)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)
# Native parts are libraries for ctypes that only look like modules.
MODULES = ["twinnet", *(name for name in _FOUND if not name.endswith(("native._engine", "native._fit")))]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    try:
        module = import_module(name)
    except (MissingExtra, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("twinnet"):
            raise
        absent(f"{name} needs what is not installed: {error}")
    if name in ("twinnet.lut.native", "twinnet.restore.native"):
        try:
            module.library()
        except EngineError as error:
            absent(str(error))
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
