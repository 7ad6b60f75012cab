"""Sentences by the code of the fact they say."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any

from twinnet.result import Fact
from twinnet.signature import dims

__all__ = ["SENTENCES", "Saying", "counted", "few", "plain", "sayings", "sentence", "spaced", "words"]

Sentence = Callable[..., str]
SENTENCES: dict[str, Sentence] = {}
"""All registered sentences; `words` loads those of this package first."""


def sentence(code: str) -> Callable[[Sentence], Sentence]:
    """Register the sentence of a code: a function of the fact's parameters, by their names.

    >>> @sentence("mine.late")
    ... def _(by: int) -> str:
    ...     return f"the twin is {by} frames late"
    >>> words(Fact("mine.late", {"by": 2}))
    'the twin is 2 frames late'
    """

    def register(say: Sentence) -> Sentence:
        SENTENCES[code] = say
        return say

    return register


def sayings(texts: Mapping[str, str]) -> None:
    """Register sentences that need no logic: the text by code, each parameter by its name in braces.

    A parameter may have an index and a format: Python's own, `words` for an operator's name, `dims` for a shape.

    >>> sayings({"mine.early": "the twin is {by[0]:.2f} frames early in {op:words}"})
    >>> words(Fact("mine.early", {"by": (2.0, 3.0), "op": "batch_norm"}))
    'the twin is 2.00 frames early in batch norm'
    """
    for code, text in texts.items():
        SENTENCES[code] = Saying(text)


@dataclass(frozen=True)
class Saying:
    """A text with the names of parameters in braces."""

    text: str

    def __call__(self, **params: Any) -> str:
        return _FORMATTER.vformat(self.text, (), params)


class _Formatter(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        form = _FORMS.get(format_spec)
        return form(value) if form is not None else format(value, format_spec)


_FORMATTER = _Formatter()


def words(fact: Fact | None) -> str:
    """A fact in words; empty for None. A code without a sentence is shown as it is.

    >>> words(Fact("nobody.knows", {"network": (1, 2), "twin": 0.1}))
    'nobody.knows: network (1,2), twin 0.1'
    """
    if fact is None:
        return ""
    _load()
    say = SENTENCES.get(fact.code)
    if say is None:
        return fact.text or _bare(fact)
    if not fact.text:
        return say(**fact.params)
    try:  # from a file, which may hold anything
        return say(**fact.params)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return fact.text


def plain(value: Any) -> str:
    """Format a value.

    >>> plain((1, 1)), plain(0.1 + 0.2), plain(1.0000000131302e-05), plain(3.0)
    ('(1,1)', '0.3', '1e-05', '3')
    """
    if isinstance(value, tuple | list):
        return "(" + ",".join(plain(v) for v in value) + ")"
    if isinstance(value, Fact):
        return words(value)
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.6g}"


def spaced(name: str) -> str:
    """An operator or attribute name with spaces.

    >>> spaced("batch_norm")
    'batch norm'
    """
    return name.replace("_", " ")


_FORMS: dict[str, Callable[[Any], str]] = {
    "": lambda value: "" if value is None else plain(value),
    "words": spaced,
    "dims": dims,
}


def counted(number: int, noun: str) -> str:
    """A number of things, in plain characters: sentences also go into JSON.

    >>> counted(1, "layer"), counted(3, "layer")
    ('1 layer', '3 layers')
    """
    return f"{number} {noun}" + ("" if number == 1 else "s")


def few(positions: Sequence[int], most: int = 4) -> str:
    """The first of some numbers, and dots for the rest.

    >>> few((3, 5)), few(range(9))
    ('3, 5', '0, 1, 2, 3 ...')
    """
    return ", ".join(map(str, positions[:most])) + (" ..." if len(positions) > most else "")


def _bare(fact: Fact) -> str:
    values: Mapping[str, Any] = fact.params
    listed = ", ".join(f"{name} {plain(value)}" for name, value in values.items())
    return f"{fact.code}: {listed}" if listed else fact.code


@cache
def _load() -> None:
    """Import every file of sentences, so that each registers its own."""
    package = importlib.import_module("twinnet.report.sentences")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
