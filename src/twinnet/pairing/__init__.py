"""Pairing: which site of the twin must carry which site of the network.

Three ways, surest first. *Provenance*: the twin was made from this network and says so by name. *Topology*: same
operator on inputs that are paired already. *Fingerprint*: same values up to layout and renaming, seen in data.
"""

from twinnet.pairing.fingerprint import pair_by_fingerprint
from twinnet.pairing.pair import Pair, Pairing, Side, pair_sites
from twinnet.pairing.transforms import IDENTITY, Transform

__all__ = ["IDENTITY", "Pair", "Pairing", "Side", "Transform", "pair_by_fingerprint", "pair_sites"]
