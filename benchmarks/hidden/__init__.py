"""Hidden wrongs: twins that are wrong and try to pass. None may PASS with strong evidence and without a word."""

from benchmarks.hidden import behaviour, data, outputs, rare, structure, unread  # registers the attacks

__all__ = ["behaviour", "data", "outputs", "rare", "structure", "unread"]
