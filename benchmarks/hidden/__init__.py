"""Hidden wrongs: twins that are wrong and try to pass. None may PASS with strong evidence and without a word."""

from benchmarks.hidden import behaviour, data, filed, odd, outputs, rare, structure, unread  # registers

__all__ = ["behaviour", "data", "filed", "odd", "outputs", "rare", "structure", "unread"]
