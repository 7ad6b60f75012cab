"""Whether a program counts in steps, by what its `.pte` file says: nothing is loaded, every offset is checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.flat import Flat, Table

__all__ = ["StepsInside", "steps_inside"]

_PROGRAM, _EXTENDED, _XNNPACK = b"ET", b"eh00", b"XH00"
_SEGMENT, _QUANTISED = 1, 2
"""Numbers of the schemas: data that lies in a segment of the file, and a tensor of XNNPACK that has steps."""
_QUANTISING = ("quantized_decomposed::", "quantized::", "torchao::")
_LARGEST = 1 << 33


@dataclass(frozen=True, slots=True)
class StepsInside:
    """How many values of a program have steps: results of its own operators, and values inside XNNPACK."""

    operators: int
    delegated: int

    def __bool__(self) -> bool:
        return bool(self.operators or self.delegated)

    def __str__(self) -> str:
        own = f"{self.operators} operators that quantise" if self.operators else ""
        inner = f"{self.delegated} values with steps inside XNNPACK" if self.delegated else ""
        return " and ".join(filter(None, (own, inner)))


def steps_inside(file: Path) -> StepsInside:
    """The steps that a `.pte` file holds; none if it is not laid out as known, which ExecuTorch itself will judge."""
    try:
        if file.stat().st_size > _LARGEST:
            return StepsInside(0, 0)
        data = memoryview(file.read_bytes())
        if bytes(data[4:6]) != _PROGRAM:
            return StepsInside(0, 0)
        root = Flat(data, str(file)).root()
        operators = delegated = 0
        for plan in root.tables(1):
            operators += sum(op.text(0).startswith(_QUANTISING) for op in plan.tables(6))
            delegated += sum(_in_xnnpack(blob, str(file)) for blob in _delegates(plan, root, data))
    except (UsageError, OSError, struct.error):
        return StepsInside(0, 0)
    return StepsInside(operators, delegated)


def _delegates(plan: Table, root: Table, data: memoryview) -> Iterator[memoryview]:
    """What the delegates of a method were given, of those that are XNNPACK's."""
    inline = [held.data(0) for held in root.tables(3)]
    segments = [(held.number(0, "u64"), held.number(1, "u64")) for held in root.tables(4)]
    base = struct.unpack_from("<Q", data, 24)[0] if bytes(data[8:12]) == _EXTENDED else 0
    for delegate in plan.tables(7):
        place = delegate.table(1)
        if place is None or delegate.text(0) != "XnnpackBackend":
            continue
        index = place.number(1, "u32")
        if place.number(0, "i8") != _SEGMENT:
            yield inline[index] if index < len(inline) else data[:0]
        elif index < len(segments):
            start, size = segments[index]
            yield data[base + start : base + start + size]


def _in_xnnpack(blob: memoryview, what: str) -> int:
    """Values with steps in a graph of XNNPACK."""
    if bytes(blob[4:8]) != _XNNPACK:
        return 0
    start, size = struct.unpack_from("<II", blob, 10)
    graph = Flat(blob[start : start + size], what).root()
    return sum(value.number(0, "u8") == _QUANTISED for value in graph.tables(2))
