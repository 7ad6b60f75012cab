"""The answer of a command: text, data for programs, and possibly a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer"]


@dataclass(frozen=True)
class Answer:
    """`text` is what curl shows, `data` what `Accept: application/json` gives, `picture` makes the PNG.

    >>> Answer("max 3", {"max": 3})
    max 3
    """

    text: str
    data: Any = None
    picture: Callable[[], bytes] | None = None

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__
