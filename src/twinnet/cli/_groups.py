"""Groups of options: a verb that takes a group accepts all of its options, and gets them as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature
from typing import Any, get_type_hints

__all__ = ["grouped"]


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb take groups: each parameter that is a dataclass becomes one option per field.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = 3
    ...     height: int = 2
    >>> @grouped
    ... def area(unit: str, size: Size) -> None:
    ...     print(size.width * size.height, unit)
    >>> list(inspect.signature(area).parameters)
    ['unit', 'width', 'height']
    >>> area(unit="cm2", width=5, height=2)
    10 cm2
    """
    shown: list[Parameter] = []
    groups: dict[str, type[Any]] = {}
    hints = get_type_hints(verb, include_extras=True)
    for parameter in inspect.signature(verb).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            groups[parameter.name] = hint  # pyright: ignore[reportArgumentType]
            shown += _options(hint)
        else:
            shown.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint))

    @functools.wraps(verb)
    def command(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given)

    command.__signature__ = Signature(shown)  # pyright: ignore[reportAttributeAccessIssue]
    return command


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]
