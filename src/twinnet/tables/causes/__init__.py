"""What can go wrong in a network of lookup tables; the general causes would only find the shadows of these."""

from __future__ import annotations

from twinnet.blame.repertoire import Repertoire
from twinnet.tables.causes import entries, lookups, stated, sums
from twinnet.tables.causes.steps import cells_words, fewer_sites, term_of

__all__ = ["TABLES"]

TABLES = Repertoire(
    {
        "lookups": lookups.propose,
        "entries": entries.propose,
        "stated": stated.propose,
        "sums": sums.propose,
    },
    fewer_sites,
    evidence=cells_words,
    kin=term_of,
)
"""Families in the order in which they stood: of hypotheses that are as simple, the first is tried first."""
