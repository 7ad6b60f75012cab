"""Where engines differ by definition."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence, spaced

sayings(
    {
        "definition.remainder": (
            "the dividend is a multiple of the divisor up to rounding, where the remainder jumps: engines round the "
            "quotient differently"
        ),
        "definition.masked_row": (
            "rows that are masked as a whole have no agreed result: engines give NaN, 0 or the mean; leave one "
            "position unmasked, or mask the result"
        ),
        "definition.log_sigmoid": (
            "the twin takes the logarithm of a rounded sigmoid, which loses digits from x = {below:.1f} down and is "
            "-inf where the sigmoid rounds to 0; write it as -softplus(-x)"
        ),
        "definition.fourier": (
            "a Fourier transform of length {length}, which is not a power of 2: engines use different algorithms and "
            "may compute their angles in float32, which costs digits with the length; padding to {next} avoids it"
        ),
    }
)


@sentence("definition.division")
def _(integer: bool) -> str:
    results = "there is no agreed result for integers" if integer else "engines give infinity, NaN or 0"
    return f"only where it divides by 0: {results}"


@sentence("definition.nan")
def _(operator: str) -> str:
    return f"only where {spaced(operator)} reads NaN, which some engines pass on and others replace"
