"""The most likely partners of sites that nothing pairs, for a person to check."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

import numpy as np

from twinnet.pairing.fingerprint import fingerprint
from twinnet.pairing.labels import bare
from twinnet.pairing.pair import Pairing
from twinnet.pairing.transforms import candidates, channels_first
from twinnet.site import Site

__all__ = ["likely_pairs"]

_LEAST = 0.5
"""How alike two sites must be, in names, values and the rarity of their shape together, to be proposed."""


def likely_pairs(
    pairing: Pairing, trace: Mapping[str, np.ndarray], twin_trace: Mapping[str, np.ndarray]
) -> list[tuple[Site, Site]]:
    """Pairs of unmatched sites whose shapes fit, the most alike first chosen; in the network's order."""
    prints = {
        id(traced): {s.tensor: fingerprint(traced[s.tensor]) for s in part if s.tensor in traced}
        for part, traced in ((pairing.unmatched, trace), (pairing.unmatched_twin, twin_trace))
    }
    scored: list[tuple[float, int, int]] = []
    for i, site in enumerate(pairing.unmatched):
        fitting = [
            k
            for k, twin in enumerate(pairing.unmatched_twin)
            if site.tensor in trace
            and twin.tensor in twin_trace
            and _fits(trace[site.tensor].shape, twin_trace[twin.tensor].shape)
        ]
        for k in fitting:
            twin = pairing.unmatched_twin[k]
            values = _values(prints[id(trace)][site.tensor], prints[id(twin_trace)][twin.tensor])
            # A shape that only one tensor has says more than one that many have.
            scored.append((_names(site, twin) + values + 1 / len(fitting), i, k))
    found: dict[int, int] = {}
    for score, i, k in sorted(scored, key=lambda item: (-item[0], item[1], item[2])):
        if score >= _LEAST and i not in found and k not in found.values():
            found[i] = k
    return [(pairing.unmatched[i], pairing.unmatched_twin[k]) for i, k in sorted(found.items())]


def _fits(ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    return bool(candidates(ours, theirs)) or channels_first(ours, theirs) is not None


def _names(site: Site, twin: Site) -> float:
    """How alike the names are, 0 to 1."""
    mine = {bare(n) for n in (site.tensor, site.module, site.output) if n}
    theirs = {bare(n) for n in (twin.tensor, twin.module, twin.output) if n}
    return max((SequenceMatcher(None, a, b).ratio() for a in mine for b in theirs), default=0.0)


def _values(ours: np.ndarray | None, theirs: np.ndarray | None) -> float:
    """How alike the distributions of the values are, 0 to 1."""
    if ours is None or theirs is None:
        return 0.0
    return max(0.0, 1.0 - float(np.abs(ours - theirs).max() / np.abs(ours).max()))
