"""The native passes over sites that fitting and fine-tuning use: plain C++ behind a C interface (`fit.h`).

`library()` gives the loaded passes or says why there are none; the numpy passes need no compiler.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_uint8, c_void_p
from functools import cache
from pathlib import Path

from twinnet.errors import EngineError
from twinnet.lut.native import Signatures, built, declared, not_built

__all__ = ["ABI", "Image", "Lookup", "Problem", "Term", "available", "instruction_sets", "library"]

ABI = 1
"""The interface these bindings are written for; `twf_abi()` of the library must agree."""


class Term(ctypes.Structure):
    """`twf_term`."""

    _fields_ = [
        ("axes", c_int32), ("nodes", c_int32), ("units", c_int32), ("near", c_int32), ("width", c_int32),
        ("thin", c_int32), ("denominator", c_int32), ("weight", c_float), ("start", c_int64),
        ("band_rows", c_int64), ("map", POINTER(c_int32)),
    ]  # fmt: skip


class Lookup(ctypes.Structure):
    """`twf_lookup`."""

    _fields_ = [
        ("term", c_int32), ("rotation", c_int32), ("group", c_int32), ("plane", c_int32 * 4),
        ("dy", c_int32 * 4), ("dx", c_int32 * 4),
    ]  # fmt: skip


class Image(ctypes.Structure):
    """`twf_image`."""

    _fields_ = [
        ("planes", c_void_p), ("plane_stride", c_int64), ("row_stride", c_int64), ("rows", c_int64),
        ("columns", c_int64), ("target", POINTER(c_uint8)), ("out", POINTER(c_float)),
        ("out_grad", POINTER(c_float)), ("plane_grad", POINTER(c_float)),
    ]  # fmt: skip


class Problem(ctypes.Structure):
    """`twf_problem`."""

    _fields_ = [
        ("terms", POINTER(Term)), ("lookups", POINTER(Lookup)), ("images", POINTER(Image)),
        ("term_count", c_int32), ("lookup_count", c_int32), ("image_count", c_int64),
        ("parameter_count", c_int64), ("channels", c_int32), ("upscale", c_int32), ("floats", c_int32),
        ("threads", c_int32),
    ]  # fmt: skip


_FLOATS = POINTER(c_float)
_SIGNATURES: Signatures = {
    "twf_abi": (c_int, ()),
    "twf_error": (c_char_p, ()),
    "twf_instruction_sets": (c_char_p, ()),
    "twf_fit_pass": (
        c_int,
        (POINTER(Problem), c_char_p, _FLOATS, c_double, c_double, c_int, POINTER(c_double), _FLOATS),
    ),
    "twf_squares": (c_int, (POINTER(Problem), c_char_p, c_double, _FLOATS)),
    "twf_forward": (c_int, (POINTER(Problem), c_char_p, _FLOATS, c_int)),
    "twf_entries": (None, (_FLOATS, c_int64, _FLOATS)),
    "twf_entries_grad": (None, (_FLOATS, c_int64, _FLOATS)),
    "twf_backward": (c_int, (POINTER(Problem), c_char_p, _FLOATS, c_int, c_double, _FLOATS)),
}


@cache
def library() -> ctypes.CDLL:
    """The passes of this installation; an `EngineError` if they were not built. Calls release the interpreter
    lock."""
    path = built(Path(__file__).parent, "_fit")
    if path is None:
        raise not_built("the native fitting passes were")
    return declared(path, _SIGNATURES, "twf_abi", ABI)


def available() -> bool:
    """Whether this installation has the native passes."""
    try:
        library()
    except EngineError:
        return False
    return True


def instruction_sets() -> tuple[str, ...]:
    """Variants of the passes this machine can run, best first.

    >>> instruction_sets()[-1]
    'baseline'
    """
    return tuple(library().twf_instruction_sets().decode().split())
