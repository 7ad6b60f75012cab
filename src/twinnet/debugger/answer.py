"""What a command answers: text for people, data for programs, a picture where there is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

__all__ = ["Answer", "plain"]


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


def plain(value: Any) -> Any:
    """A value as JSON can carry it: numbers that are not finite as text, arrays as lists, objects by their fields.

    >>> plain({"a": float("inf"), "b": (1, 2)})
    {'a': 'Infinity', 'b': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    listed = getattr(value, "tolist", None)  # of numpy and torch
    if callable(listed):
        return plain(listed())
    return str(value)
