"""Normalisations and their statistics."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence

sayings(
    {
        "normalisation.correction": "the twin divides by n - {twin} where the network divides by n - {network}",
        "normalisation.axis": "the twin normalises from axis {twin} where the network normalises from axis {network}",
        "normalisation.groups": "{twin} groups where the network has {network}",
        "normalisation.together": "the twin normalises all channels together where the network normalises each",
        "normalisation.unbiased": "the twin divides by {twin} where the network divides by {network}",
        "statistics.exchanged": "{operands[0]} and {operands[1]} exchanged",
        "statistics.of_the_batch": "the twin normalises with the statistics of the batch (training mode) "
        "where the network has running ones",
    }
)


@sentence("normalisation.another")
def _(network: str, twin: str) -> str:
    return f"{twin}{' (no mean)' if twin == 'RMS norm' else ''} instead of {network}"


_TAKEN = {
    "running mean": "takes the mean as 0",
    "running variance": "takes the variance as 1",
    "sqrt(var)": "divides by the variance where the network divides by the standard deviation",
    "var": "takes the standard deviation for the variance",
}


@sentence("statistics.taken")
def _(network: str, twin: float | str) -> str:
    return f"the twin {_TAKEN[network]}"
