"""What differs between networks A and B."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import counted, dims, sentence, words
from twinnet.result import Fact

Shape = tuple[int | str, ...]


@sentence("structure.only")
def _(place: str, op: str, side: str) -> str:
    return f"{place} {op} is only in {side}"


@sentence("structure.replaced")
def _(place: str, a: str, b: str) -> str:
    return f"{place}: A has {a}, B has {b}"


@sentence("structure.attribute")
def _(place: str, op: str, name: str, a: str, b: str) -> str:
    return f"{place} {op}: {name} is {a} in A, {b} in B"


@sentence("structure.constant")
def _(place: str, op: str, operand: str, side: str) -> str:
    return f"{place} {op}: {operand} is a constant in {side} and not in {'B' if side == 'A' else 'A'}"


@sentence("structure.weight_shape")
def _(place: str, op: str, operand: str, a: Shape, b: Shape) -> str:
    return f"{place} {op}: {operand} is {dims(a)} in A, {dims(b)} in B"


@sentence("structure.weight")
def _(place: str, op: str, operand: str, shape: Shape, how: Fact) -> str:
    return f"{place} {op}: {operand} {dims(shape)} differs {words(how)}"


@sentence("weight.type")
def _(a: str, b: str) -> str:
    return f"in type: {a} in A, {b} in B"


@sentence("weight.values")
def _(largest: float, count: int, elements: int, confined: Any) -> str:
    told = f"by up to {largest:.3g} in {count} of {elements} elements"
    if confined is None:
        return told
    axis, hit, number, size = confined
    places = ", ".join(map(str, hit)) + ("..." if number > len(hit) else "")
    return f"{told}, all at index {places} of axis {axis} ({number} of {size})"


@sentence("structure.ends")
def _(kind: str, a: tuple[str, ...], b: tuple[str, ...]) -> str:
    return f"A has {counted(len(a), kind)} ({', '.join(a)}), B has {len(b)} ({', '.join(b)})"


@sentence("structure.folded")
def _() -> str:
    return "compared after batch norm was folded into the layer before it and x * sigmoid(x) was joined"


@sentence("structure.not_the_same")
def _(weights: tuple[Fact, ...], more: int, layers: tuple[int, int]) -> str:
    told = "; ".join(words(weight) for weight in weights)
    told += f"; and {more} more weights" if more else ""
    return told + (f"; {layers[0]} layers in A, {layers[1]} in B" if layers[0] != layers[1] else "")
