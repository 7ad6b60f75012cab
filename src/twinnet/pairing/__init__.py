"""Pairing: which site of the twin must hold the tensor of which site of the network.

Three ways, most reliable first. *Provenance*: the twin was made from this network and its names show it. *Topology*:
the same operator on inputs that are already paired. *Fingerprint*: the same values up to layout, seen in data.
"""

from twinnet.pairing.fingerprint import pair_by_fingerprint
from twinnet.pairing.pair import BARE, Pair, Pairing, Side, pair_sites, pairs_beside
from twinnet.pairing.transforms import IDENTITY, Transform

__all__ = [
    "BARE",
    "IDENTITY",
    "Pair",
    "Pairing",
    "Side",
    "Transform",
    "pair_by_fingerprint",
    "pair_sites",
    "pairs_beside",
]
