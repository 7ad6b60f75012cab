"""The smallest network and input that still show a finding, as one runnable file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinnet.shrink.make import Repro, repro

__all__ = ["Repro", "repro"]


def __getattr__(name: str) -> Any:
    # Checks take seeds from this package; the code that turns them into repros is loaded on demand.
    if name in __all__:
        return getattr(import_module("twinnet.shrink.make"), name)
    raise AttributeError(f"module 'twinnet.shrink' has no attribute {name!r}")
