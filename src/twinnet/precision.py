"""Number formats: what kind each is, and how coarsely it rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["TINY", "UNITS", "coarser", "dtype_class", "unit_of"]

UNITS: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "tf32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
"""Unit roundoff of the number formats a twin may declare."""

TINY = 2.0**-126
"""The smallest normal number of float32. Many engines compute with 0 in place of what is smaller."""

_EIGHT_BITS = 2.0**-8
_FLOATS = {np.dtype(t) for t in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)}


def coarser(a: str, b: str) -> str:
    """The number format of the two that rounds more: what an end-to-end comparison can expect at best.

    >>> coarser("float64", "float32")
    'float32'
    """
    return max(a, b, key=unit_of)


def unit_of(precision: str) -> float:
    """How coarse a format is: its unit roundoff; for "int8" a step relative to the range that it divides.

    >>> unit_of("float16") == 2.0**-11, unit_of("int8") == 2.0**-8
    (True, True)
    """
    return _EIGHT_BITS if precision == "int8" else UNITS.get(precision, UNITS["float32"])


def dtype_class(dtype: np.dtype[Any]) -> str:
    """float, integer, bool or complex: what two sides must have in common.

    >>> dtype_class(np.dtype("int8")), dtype_class(np.dtype("float16"))
    ('integer', 'float')
    """
    if dtype in _FLOATS:
        return "float"
    kind = np.dtype(dtype).kind
    return {"i": "integer", "u": "integer", "b": "bool", "c": "complex", "f": "float"}.get(kind, "other")
