"""The requantisations of this family, by name: how an exact sum becomes 8 bit."""

from __future__ import annotations

from twinnet.lut.plan import Requant

__all__ = ["centred", "direct", "srlut_2021"]


def centred(count: int, grey: int = 127) -> Requant:
    """A mean of `count` lookups around a grey (127 in published tables): tables hold signed values.

    >>> centred(12).steps
    (('div', 12), ('add', 127), ('clip', 0, 255), ('round',))
    """
    mean = (("div", count),) if count > 1 else ()
    return Requant("centred", (*mean, ("add", grey), ("clip", 0, 255), ("round",)))


def direct(*divisors: int) -> Requant:
    """The sum divided by each divisor in turn (branches, input channels): last stages.

    >>> direct(4, 3).steps
    (('div', 4), ('div', 3), ('clip', 0, 255), ('round',))
    """
    parts = tuple(("div", d) for d in divisors if d != 1)
    return Requant("direct", (*parts, ("clip", 0, 255), ("round",)))


def srlut_2021() -> Requant:
    """SR-LUT's: through [0, 1] and back in doubles, step by step as its tester does it."""
    return Requant("srlut-2021", (("div", 255), ("clip", 0, 1), ("mul", 255), ("round",)))
