"""The native table engine: plain C++ behind a C interface (`engine.h`), loaded with ctypes.

`library()` gives the loaded engine or says why there is none; `twinnet.lut.executors.native` runs plans.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from ctypes import POINTER, c_char_p, c_int, c_int8, c_int32, c_int64, c_uint8, c_void_p
from functools import cache
from pathlib import Path

from twinnet.errors import EngineError

__all__ = [
    "ABI",
    "Signatures",
    "built",
    "declared",
    "find_library",
    "instruction_sets",
    "library",
    "not_built",
]

ABI = 1
"""The interface these bindings are written for; `twl_abi()` of the library must agree."""

Signatures = Mapping[str, tuple[object, tuple[object, ...]]]
"""Result and arguments of every function, by name."""

_LATER = ("twl_run_timed",)
"""Functions that a library of this interface may lack, because it was built before they were added."""

_SIGNATURES: Signatures = {
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
    "twl_run_timed": (
        c_int,
        (
            c_void_p, POINTER(c_uint8), POINTER(c_int64), c_int64, c_int64, c_int64, POINTER(c_uint8),
            POINTER(c_int64), c_int, POINTER(c_int64),
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
    return built(Path(__file__).parent, "_engine")


def built(folder: Path, stem: str) -> Path | None:
    """The compiled library in a folder whose name begins with `stem`, if there is one."""
    endings = (".so", ".dylib", ".pyd")
    return next((path for path in sorted(folder.glob(f"{stem}*")) if path.suffix in endings), None)


def open_library(path: Path) -> ctypes.CDLL:
    """Load an engine from a file and declare its functions. Calls release the interpreter lock."""
    return declared(path, _SIGNATURES, "twl_abi", ABI, _LATER)


def declared(
    path: Path, signatures: Signatures, abi: str, wanted: int, later: Collection[str] = ()
) -> ctypes.CDLL:
    """A library with the types of its functions; `abi` names the function that must answer `wanted`.

    It may lack those of `later`.
    """
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in signatures.items():
            if name in later and not hasattr(library, name):
                continue
            function = getattr(library, name)
            function.restype, function.argtypes = result, list(arguments)
    except (OSError, AttributeError) as error:
        raise EngineError(f"the native library {path} does not load: {error}", stage="load") from error
    if (found := getattr(library, abi)()) != wanted:
        raise EngineError(
            f"the native library {path} has interface {found}, but this package needs {wanted}", stage="load",
            hint="build it again: pip install --force-reinstall --no-deps .",
        )  # fmt: skip
    return library


def not_built(what: str) -> EngineError:
    """The error of an installation without a native library."""
    hint = "install a C++ compiler (GCC 12 or newer) and pip install again; the numpy path needs none"
    return EngineError(f"{what} not built", stage="load", hint=hint)


@cache
def library() -> ctypes.CDLL:
    """The engine of this installation; an `EngineError` if it was not built."""
    path = find_library()
    if path is None:
        raise not_built("the native table engine was")
    return open_library(path)


def instruction_sets() -> tuple[str, ...]:
    """Kernel variants this machine can run, best first.

    >>> instruction_sets()[-1]
    'baseline'
    """
    return tuple(library().twl_instruction_sets().decode().split())
