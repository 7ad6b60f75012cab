"""Facts in words, one file per family of codes; a new sentence is one function under `@sentence`.

@sentence("padding.mode")
def _(network, twin):
    return f"the twin pads by {twin} where the network pads by {network}"
"""

from __future__ import annotations

from twinnet.report.sentences.registry import SENTENCES, counted, plain, sentence, spaced, words

__all__ = ["SENTENCES", "counted", "plain", "sentence", "spaced", "words"]
