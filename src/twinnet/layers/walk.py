"""Which steps compute some values from others: the same walk over every kind of graph."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import TypeVar

__all__ = ["walk_back"]

Value = TypeVar("Value", bound=Hashable)


def walk_back(
    outputs: Iterable[Value],
    known: Container[Value],
    producer: Mapping[Value, int],
    reads: Callable[[int], Iterable[Value]],
) -> tuple[list[int], list[Value]]:
    """The steps that compute `outputs` from the values in `known`, in order, and the values where the walk ends.

    It ends at known values and at those that no step produces: inputs and constants of the graph. `producer` gives the
    step that makes a value, `reads` the values that a step takes.

    >>> steps = [("x",), ("y", "w")]
    >>> walk_back(["z"], {"x"}, {"y": 0, "z": 1}, lambda step: steps[step])
    ([0, 1], ['w', 'x'])
    """
    found: set[int] = set()
    ends: dict[Value, None] = {}
    stack = list(outputs)
    seen: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        step = producer.get(value)
        if value in known or step is None:
            ends[value] = None
        elif step not in found:
            found.add(step)
            stack.extend(reads(step))
    return sorted(found), list(ends)
