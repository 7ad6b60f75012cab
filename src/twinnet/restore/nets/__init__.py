"""LUT networks, one small file each: `srlut`, `mulut` (and cascades), `spf`, `auto`.

Every module has `build(...)`, which returns a `twinnet.lut.LutNet`.

>>> sorted(NETS)
['auto-mulut', 'auto-spf', 'cascade', 'mulut', 'spf', 'srlut']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinnet.restore.nets import auto, mulut, spf, srlut

__all__ = ["NETS", "auto", "mulut", "spf", "srlut"]

NETS: dict[str, Callable[..., Any]] = {
    "srlut": srlut.build,
    "mulut": mulut.build,
    "cascade": mulut.cascade,
    "spf": spf.build,
    "auto-mulut": auto.build_mulut,
    "auto-spf": auto.build_spf,
}
"""Factories by name."""
