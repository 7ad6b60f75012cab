"""Read flatbuffers from anywhere: every offset is checked before it is followed.

A flatbuffer is tables, vectors and strings that refer to each other by offsets. `Flat` reads them by field number; what
lies outside the file, or is larger than the file could hold, is a UsageError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from twinnet.errors import UsageError

__all__ = ["Flat", "Table"]

_NUMBERS = {
    "i8": struct.Struct("<b"),
    "u8": struct.Struct("<B"),
    "bool": struct.Struct("<?"),
    "i32": struct.Struct("<i"),
    "u32": struct.Struct("<I"),
    "i64": struct.Struct("<q"),
    "u64": struct.Struct("<Q"),
    "f32": struct.Struct("<f"),
}
_SHORT, _WORD = struct.Struct("<H"), struct.Struct("<I")
_MOST_TABLES = 2_000_000


class Flat:
    """The bytes of a flatbuffer. `what` names it in messages.

    >>> Flat(b"\\xff\\xff\\xff\\xff", "a.tflite").root()
    Traceback (most recent call last):
    twinnet.errors.UsageError: a.tflite is damaged: it refers to byte 4294967295 of 4
    """

    def __init__(self, data: bytes | memoryview, what: str) -> None:
        self.data = memoryview(data)
        self.size = len(data)
        self.what = what
        self._tables = 0

    def root(self) -> Table:
        """The table that the file starts with."""
        return self.table(self._follow(0))

    def number(self, at: int, kind: struct.Struct) -> int:
        """A number at a place that is checked."""
        if at < 0 or at + kind.size > self.size:
            raise self.damaged(f"it refers to byte {at} of {self.size}")
        return kind.unpack_from(self.data, at)[0]

    def damaged(self, why: str) -> UsageError:
        """The error for a file that cannot be what it claims to be."""
        return UsageError(f"{self.what} is damaged: {why}")

    def table(self, at: int) -> Table:
        """The table at a place."""
        self._tables += 1
        if self._tables > _MOST_TABLES:  # tables that refer to each other can repeat without end
            raise self.damaged(f"it has more than {_MOST_TABLES} tables")
        vtable = at - self.number(at, _NUMBERS["i32"])
        length = self.number(vtable, _SHORT)
        if length < 4 or length % 2 or vtable + length > self.size:
            raise self.damaged(f"the table at byte {at} has no valid list of fields")
        slots = struct.unpack_from(f"<{(length - 4) // 2}H", self.data, vtable + 4)
        return Table(self, at, slots)

    def _follow(self, at: int) -> int:
        target = at + self.number(at, _WORD)
        if target + 4 > self.size:
            raise self.damaged(f"it refers to byte {target} of {self.size}")
        return target

    def follow(self, at: int) -> int:
        """The place that the offset at a place leads to."""
        return self._follow(at)

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Start and length of the vector at a place, whose elements take `width` bytes each."""
        count = self.number(at, _WORD)
        if at + 4 + count * width > self.size:
            raise self.damaged(f"a list at byte {at} has {count} elements, more than the file holds")
        return at + 4, count


class Table:
    """One table: its fields by number. A field that is absent has its default."""

    __slots__ = ("_at", "_flat", "_slots")

    def __init__(self, flat: Flat, at: int, slots: tuple[int, ...]) -> None:
        self._flat, self._at, self._slots = flat, at, slots

    def _place(self, field: int) -> int:
        slot = self._slots[field] if field < len(self._slots) else 0
        return self._at + slot if slot else 0

    def number(self, field: int, kind: str, default: float = 0) -> int:
        """A number; "bool" and "f32" give those."""
        place = self._place(field)
        return self._flat.number(place, _NUMBERS[kind]) if place else default  # type: ignore[return-value]

    def text(self, field: int) -> str:
        """A string; empty if it is absent."""
        return bytes(self.data(field)).decode("utf-8", "replace")

    def data(self, field: int) -> memoryview:
        """The bytes of a vector, not copied."""
        place = self._place(field)
        if not place:
            return self._flat.data[:0]
        start, count = self._flat.vector(self._flat.follow(place), 1)
        return self._flat.data[start : start + count]

    def array(self, field: int, dtype: str) -> np.ndarray:
        """A vector of numbers."""
        place = self._place(field)
        kind = np.dtype(dtype)
        if not place:
            return np.zeros(0, kind)
        start, count = self._flat.vector(self._flat.follow(place), kind.itemsize)
        return np.frombuffer(self._flat.data[start : start + count * kind.itemsize], kind)

    def has(self, field: int) -> bool:
        """Whether a field is there."""
        return bool(self._place(field))

    def table(self, field: int) -> Table | None:
        """The table that a field refers to."""
        place = self._place(field)
        return self._flat.table(self._flat.follow(place)) if place else None

    def tables(self, field: int) -> Iterator[Table]:
        """The tables of a vector."""
        place = self._place(field)
        if not place:
            return
        start, count = self._flat.vector(self._flat.follow(place), 4)
        for index in range(count):
            yield self._flat.table(self._flat.follow(start + 4 * index))
