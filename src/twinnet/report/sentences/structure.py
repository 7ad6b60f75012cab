"""What differs between networks A and B."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import counted, sayings, sentence, words
from twinnet.result import Fact

sayings(
    {
        "structure.only": "{place} {op} is only in {side}",
        "structure.replaced": "{place}: A has {a}, B has {b}",
        "structure.attribute": "{place} {op}: {name} is {a} in A, {b} in B",
        "structure.weight_shape": "{place} {op}: {operand} is {a:dims} in A, {b:dims} in B",
        "structure.weight": "{place} {op}: {operand} {shape:dims} differs {how}",
        "weight.type": "in type: {a} in A, {b} in B",
        "structure.folded": "compared after batch norm was folded into the layer before it and x * "
        "sigmoid(x) was joined",
    }
)


@sentence("structure.constant")
def _(place: str, op: str, operand: str, side: str) -> str:
    return f"{place} {op}: {operand} is a constant in {side} and not in {'B' if side == 'A' else 'A'}"


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


@sentence("structure.not_the_same")
def _(weights: tuple[Fact, ...], more: int, layers: tuple[int, int]) -> str:
    told = "; ".join(words(weight) for weight in weights)
    told += f"; and {more} more weights" if more else ""
    return told + (f"; {layers[0]} layers in A, {layers[1]} in B" if layers[0] != layers[1] else "")
