"""The judgement of one pair on one sample."""

from __future__ import annotations

from dataclasses import dataclass

from twinnet.result import Fact, Status

__all__ = ["LIMIT", "Born"]

LIMIT = 4.0
"""Born error in floor units above which a segment is a finding."""


@dataclass(frozen=True, slots=True)
class Born:
    """The error a segment created: its largest value, the floor there, and their ratio.

    `finite` means that no element is NaN or infinite on either side. `used` is the share of its quantiser's range that
    the values fill, where the twin is quantised.
    """

    status: Status
    ratio: float | None = None
    born: float | None = None
    floor: float | None = None
    reason: Fact | None = None
    segment: tuple[str, ...] = ()
    limit: float = LIMIT
    finite: bool = True
    used: float | None = None
