"""The judgement of one pair on one sample."""

from __future__ import annotations

from dataclasses import dataclass

from twinnet.result import Status

__all__ = ["ACROSS", "BEYOND_STEPS", "CHANGED", "LIMIT", "OVERFLOW", "TOO_LARGE", "Born"]

LIMIT = 4.0
"""Born error in floor units above which a segment is a finding."""


TOO_LARGE = "more than rounding can explain"
"""The reason of a finding whose size says it all."""

BEYOND_STEPS = "more than the steps of its quantisation can explain"
"""The same for a twin that declares steps."""

CHANGED = "watching this tensor changed it"
"""How the reason begins at a tensor that is another when nobody looks."""

OVERFLOW = "a number too large for the twin became infinite"
"""How the reason begins where that is the fault."""

ACROSS = "watching changed what it reads"
"""How the reason begins where what reads such a tensor cannot be judged across it."""


@dataclass(frozen=True, slots=True)
class Born:
    """What a segment created: its largest error, the floor there, and their ratio.

    `finite` says that all elements were compared as numbers: none is NaN or infinite on either side.
    """

    status: Status
    ratio: float | None = None
    born: float | None = None
    floor: float | None = None
    reason: str = ""
    segment: tuple[str, ...] = ()
    limit: float = LIMIT
    finite: bool = True
