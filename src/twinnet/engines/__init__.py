"""Engines convert, load and run networks. Each is one file, imported when it is first used."""

from __future__ import annotations

from twinnet.engines.registry import (
    BUILT_IN,
    all_engines,
    engine_for_format,
    engine_names,
    find_engine,
    known_engine,
    origin_of,
    register,
    standalone_of,
)
from twinnet.engines.spec import Spec, parse_spec, parse_specs, reference_spec

__all__ = [
    "BUILT_IN",
    "Spec",
    "all_engines",
    "engine_for_format",
    "engine_names",
    "find_engine",
    "known_engine",
    "origin_of",
    "parse_spec",
    "parse_specs",
    "reference_spec",
    "register",
    "standalone_of",
]
