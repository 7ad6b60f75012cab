"""Rules that turn TFLite operators into canonical layers. Files are found by themselves."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from twinnet.tflite.operators._node import Node, Scope, rule_of

__all__ = ["Node", "Scope", "rule_of"]

for _found in iter_modules(__path__):
    if not _found.name.startswith("_"):
        import_module(f"{__name__}.{_found.name}")
