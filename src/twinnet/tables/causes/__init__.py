"""What can go wrong in a network of lookup tables; the general causes would only find their symptoms."""

from __future__ import annotations

from twinnet.blame.repertoire import Repertoire
from twinnet.tables.causes import entries, lookups, stated, sums
from twinnet.tables.causes.steps import cells, fewer_sites, term_of

__all__ = ["TABLES"]

_FAMILIES = {
    "lookups": lookups.propose,
    "entries": entries.propose,
    "stated": stated.propose,
    "sums": sums.propose,
}
"""In the order in which hypotheses that are as simple are tried."""

TABLES = Repertoire(
    lambda: _FAMILIES,
    fewer_sites,
    evidence=cells,
    kin=term_of,
)
"""What may be wrong with tables, and how their segments are looked at."""
