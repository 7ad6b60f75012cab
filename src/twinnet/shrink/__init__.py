"""The smallest network and input that still show a finding, as one runnable file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.importing import names_from

if TYPE_CHECKING:
    from twinnet.shrink.make import Repro, repro

__all__ = ["Repro", "repro"]


# Checks take seeds from this package; the code that turns them into repros is loaded on demand.
__getattr__ = names_from(__name__, dict.fromkeys(__all__, "make"))
