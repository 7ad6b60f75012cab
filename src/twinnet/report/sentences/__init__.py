"""Facts in words, one file per family of codes; a new sentence is a line of `sayings`, or a function under `@sentence`.

sayings({"padding.value": "the twin pads with {twin} where the network pads with {network}"})

@sentence("activation.left_out")
def _(network, twin):
    return f"the twin leaves out {'an' if network[0] in 'aeiou' else 'a'} {network}"
"""

from __future__ import annotations

from twinnet.report.sentences.registry import SENTENCES, counted, plain, sayings, sentence, spaced, words

__all__ = ["SENTENCES", "counted", "plain", "sayings", "sentence", "spaced", "words"]
