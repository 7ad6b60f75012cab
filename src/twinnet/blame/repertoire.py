"""Which causes may apply to a kind of network, and how its segments are explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twinnet.blame.causes import Family, families
from twinnet.blame.lean import fewer_channels
from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer
from twinnet.result import Fact

__all__ = ["GENERAL", "Repertoire"]


@dataclass(frozen=True)
class Repertoire:
    """The families of causes that are tried on a segment, and what else differs between kinds of networks.

    `fewer` makes a problem smaller, so that many hypotheses can be tried quickly. A segment with more than `longest`
    layers that compute something gets no cause (None: no limit). `evidence` adds to the description of an error
    without a cause. Findings whose last layers have the same `kin` are one fault, for that reason, unless their causes
    differ.
    """

    families: Callable[[], Mapping[str, Family]]
    fewer: Callable[[Problem], Problem | None]
    longest: int | None = None
    evidence: Callable[[Problem], Fact | None] = lambda problem: None
    kin: Callable[[Layer], Fact | None] = lambda layer: None


GENERAL = Repertoire(families, fewer_channels, longest=12)
"""The repertoire of networks made of canonical layers."""
