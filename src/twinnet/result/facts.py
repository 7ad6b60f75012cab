"""What was found, as data: a code and its parameters. Sentences are made of facts in `twinnet.report` only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinnet.result.speech import speaker

__all__ = ["Fact", "coded", "fact", "said"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement. `code` says which, `params` hold its values: numbers, names, tuples, other facts.

    Where a fact is about both sides, `network` and `twin` are their two values. `text` is what a file said it in,
    for a code that nobody here has a sentence for. `str(fact)` is the sentence.

    >>> found = fact("padding.mode", network="reflect", twin="edge")
    >>> found.code, found.params["twin"]
    ('padding.mode', 'edge')
    >>> str(found)
    'the twin pads by edge where the network pads by reflect'
    """

    code: str
    params: Mapping[str, Any] = field(default_factory=dict)
    text: str = field(default="", compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.code)

    def __str__(self) -> str:
        return speaker().words(self)

    @property
    def network_value(self) -> Any:
        """The network's value, where it has one."""
        return _said_value(self.params.get("network"))

    @property
    def twin_value(self) -> Any:
        """The twin's value, where it has one."""
        return _said_value(self.params.get("twin"))


def fact(code: str, /, **params: Any) -> Fact:
    """A fact with its parameters; tensors and arrays become plain values.

    >>> fact("index.rolled", network=0, twin=-1, axis=2).params
    {'network': 0, 'twin': -1, 'axis': 2}
    """
    return Fact(code, {name: _plain(value) for name, value in params.items()})


def coded(found: Fact | None, *codes: str) -> bool:
    """Whether there is a fact, and it has one of these codes.

    >>> coded(fact("born.too_large"), "born.too_large", "steps.beyond"), coded(None, "born.too_large")
    (True, False)
    """
    return found is not None and found.code in codes


def said(text: str, /, **params: Any) -> Fact:
    """What somebody else said: an engine's message, or the words of an older file.

    >>> str(said("no kernel for GroupNorm"))
    'no kernel for GroupNorm'
    """
    return fact("said", text=text, **params)


def _said_value(value: Any) -> Any:
    return str(value) if isinstance(value, Fact) else value


def _plain(value: Any) -> Any:
    if callable(tolist := getattr(value, "tolist", None)):  # a numpy or torch value
        value = tolist()
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    return value
