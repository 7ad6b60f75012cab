"""Pairs from data: equal values up to layout and renaming.

A fingerprint is a tensor's quantiles, which do not depend on names or axis order. It is used for sites that provenance
and topology left unpaired, and only if exactly one candidate fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twinnet.pairing.transforms import candidates
from twinnet.precision import dtype_class

if TYPE_CHECKING:
    from twinnet.pairing.pair import Pair, Pairing

__all__ = ["fingerprint", "pair_by_fingerprint"]

_QUANTILES = np.linspace(0, 1, 9)
_SMALLEST = 16


def fingerprint(array: np.ndarray) -> np.ndarray | None:
    """Quantiles and mean of a float tensor; None if they would not distinguish it.

    >>> x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    >>> bool((fingerprint(x) == fingerprint(x.transpose(2, 0, 1))).all())
    True
    """
    if dtype_class(array.dtype) != "float" or array.size < _SMALLEST:
        return None
    flat = array.astype(np.float64, copy=False).reshape(-1)
    if not np.isfinite(flat).all() or flat.min() == flat.max():
        return None
    return np.append(np.quantile(flat, _QUANTILES), flat.mean())


def pair_by_fingerprint(
    pairing: Pairing, trace: Mapping[str, np.ndarray], twin_trace: Mapping[str, np.ndarray]
) -> tuple[Pair, ...]:
    """Further pairs among the unmatched sites of both sides, in consistent order."""
    from twinnet.pairing.pair import Pair

    by_size: dict[int, list[tuple[int, np.ndarray]]] = defaultdict(list)
    twins = [s for s in pairing.unmatched_twin if s.tensor in twin_trace]
    for i, site in enumerate(twins):
        array = twin_trace[site.tensor]
        print_ = fingerprint(array) if array.size <= 1 << 22 else None
        if print_ is not None:
            by_size[array.size].append((i, print_))
    if not by_size:
        return ()
    found: list[Pair] = []
    taken: set[int] = set()
    for site in pairing.unmatched:
        if site.tensor not in trace:
            continue
        array = trace[site.tensor]
        rivals = by_size.get(array.size)
        mine = fingerprint(array) if rivals else None
        if mine is None or not rivals:
            continue
        scale = np.abs(mine).max()
        fits = [i for i, p in rivals if i not in taken and np.abs(p - mine).max() <= 1e-3 * scale]
        matches = []
        for i in fits:
            other = twin_trace[twins[i].tensor]
            for transform in candidates(array.shape, other.shape):
                off = np.abs(transform.to_network(other).astype(np.float64) - array).max()
                if off <= 1e-2 * scale:
                    matches.append((i, transform))
                    break
        if len(matches) == 1:
            i, transform = matches[0]
            taken.add(i)
            found.append(Pair(site, twins[i], "fingerprint", 0.7, transform))
    return tuple(found)
