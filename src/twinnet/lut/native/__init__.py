"""The native table engine: plain C++ behind a C interface (`engine.h`), loaded with ctypes.

`library()` gives the loaded engine or says why there is none; `twinnet.lut.executors.native` runs plans.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int8, c_int32, c_int64, c_uint8, c_void_p
from functools import cache
from pathlib import Path

from twinnet.errors import EngineError

__all__ = ["ABI", "find_library", "instruction_sets", "library", "open_library"]

ABI = 1
"""The interface these bindings are written for; `twl_abi()` of the library must agree."""

_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "twl_abi": (c_int, ()),
    "twl_error": (c_char_p, ()),
    "twl_instruction_sets": (c_char_p, ()),
    "twl_new": (c_void_p, ()),
    "twl_free": (None, (c_void_p,)),
    "twl_table": (
        c_int,
        (
            c_void_p, POINTER(c_int8), c_int64, c_int64, *[c_int] * 6, POINTER(c_int64), c_int64,
            POINTER(c_int8), c_int64,
        ),
    ),
    "twl_stage": (c_int, (c_void_p, c_int, c_int, c_int, c_int64, POINTER(c_int64), c_int64, c_int64)),
    "twl_term": (
        c_int,
        (
            c_void_p, c_int, c_int, c_int, POINTER(c_int32), POINTER(c_int32), c_int, POINTER(c_int32), c_int,
            c_int,
            POINTER(c_int32), POINTER(c_int32), c_int, c_int, c_int, c_int, POINTER(c_int32),
        ),
    ),
    "twl_finish": (c_int, (c_void_p, c_char_p)),
    "twl_instruction_set": (c_char_p, (c_void_p,)),
    "twl_describe": (c_char_p, (c_void_p, c_int)),
    "twl_run": (
        c_int,
        (
            c_void_p, POINTER(c_uint8), POINTER(c_int64), c_int64, c_int64, c_int64, POINTER(c_uint8),
            POINTER(c_int64), c_int,
        ),
    ),
    "twl_run_stage": (
        c_int,
        (c_void_p, c_int, POINTER(POINTER(c_uint8)), c_int64, c_int64, POINTER(c_uint8), c_int),
    ),
    "twl_lookup": (
        c_int,
        (c_void_p, c_int, c_int, c_int, POINTER(POINTER(c_uint8)), c_int64, c_int64, POINTER(c_int64)),
    ),
}  # fmt: skip


def find_library() -> Path | None:
    """The engine built into this installation, if any."""
    here = Path(__file__).parent
    found = [path for ending in ("so", "dylib", "pyd") for path in sorted(here.glob(f"_engine*.{ending}"))]
    return found[0] if found else None


def open_library(path: Path) -> ctypes.CDLL:
    """Load an engine from a file and declare its functions. Calls release the interpreter lock."""
    try:
        engine = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(engine, name)
            function.restype, function.argtypes = result, list(arguments)
    except (OSError, AttributeError) as error:
        raise EngineError(f"the native engine {path} does not load: {error}", stage="load") from error
    if engine.twl_abi() != ABI:
        raise EngineError(
            f"the native engine {path} speaks interface {engine.twl_abi()}, this package {ABI}", stage="load",
            hint="build it again: pip install --force-reinstall --no-deps .",
        )  # fmt: skip
    return engine


@cache
def library() -> ctypes.CDLL:
    """The engine of this installation; an `EngineError` if it was not built."""
    path = find_library()
    if path is None:
        raise EngineError(
            "the native table engine was not built", stage="load",
            hint="install a C++ compiler (GCC 12 or newer) and pip install again; the numpy path needs none",
        )  # fmt: skip
    return open_library(path)


def instruction_sets() -> tuple[str, ...]:
    """Kernel variants this machine can run, best first.

    >>> instruction_sets()[-1]
    'baseline'
    """
    return tuple(library().twl_instruction_sets().decode().split())
