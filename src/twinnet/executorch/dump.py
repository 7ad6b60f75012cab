"""ETDump and its debug buffer: what ran on a device, how long it took, and the tensors it made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from twinnet.errors import UsageError
from twinnet.flat import Flat, Table

__all__ = ["DebugBuffer", "Dump", "Run", "Step", "TensorAt", "Value", "read_dump", "tensors_of"]

_LARGEST = 1 << 31
_MARK = b"ED00"
_DTYPES: dict[int, Any] = {
    0: np.uint8,
    1: np.int8,
    2: np.int16,
    3: np.int32,
    4: np.int64,
    5: np.float16,
    6: np.float32,
    7: np.float64,
    11: np.bool_,
    12: np.int8,
    13: np.uint8,
    14: np.int32,
    15: ml_dtypes.bfloat16,
    23: ml_dtypes.float8_e5m2,
    24: ml_dtypes.float8_e4m3fn,
    25: ml_dtypes.float8_e5m2fnuz,
    26: ml_dtypes.float8_e4m3fnuz,
    27: np.uint16,
    28: np.uint32,
    29: np.uint64,
}
"""Number formats by their code; the integers of quantised tensors are read as integers."""


@dataclass(frozen=True, slots=True)
class TensorAt:
    """A tensor in a debug buffer; `offset` is None where it was not kept there. `code` is its number format."""

    code: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int | None

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Its number format; None for one that numpy cannot hold."""
        kind = _DTYPES.get(self.code)
        return None if kind is None else np.dtype(kind)

    @property
    def end(self) -> int:
        """Where its bytes end in the buffer; 0 if it is not there."""
        if self.offset is None or self.dtype is None:
            return 0
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Step:
    """Something that took time: an operator, a kernel inside a delegate, loading or the whole run.

    `delegate` identifies a kernel inside a delegate, by a number or a text. Times are in the device's own ticks.
    """

    name: str
    chain: int
    instruction: int
    delegate: int | str | None
    start: int
    end: int
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was logged: a tensor, a list of them, a number or a flag. `output` marks those of the program."""

    name: str
    chain: int
    instruction: int
    delegate: int | str | None
    value: TensorAt | tuple[TensorAt, ...] | float | int | bool | None
    output: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One block of events: loading a program, or one execution of it."""

    name: str
    steps: tuple[Step, ...]
    values: tuple[Value, ...]
    bundled_input: int | None = None

    @property
    def outputs(self) -> tuple[TensorAt, ...]:
        """The program's output tensors, in order."""
        return tuple(t for v in self.values if v.output for t in tensors_of(v))


@dataclass(frozen=True, slots=True)
class Dump:
    """A whole ETDump."""

    path: Path
    version: int
    runs: tuple[Run, ...]

    @property
    def executions(self) -> tuple[Run, ...]:
        """The runs in which the program was executed."""
        return tuple(r for r in self.runs if r.values or any(s.name == "Method::execute" for s in r.steps))


def tensors_of(value: Value) -> tuple[TensorAt, ...]:
    """The tensors of a logged value."""
    found = value.value
    if isinstance(found, TensorAt):
        return (found,)
    return found if isinstance(found, tuple) else ()


def read_dump(path: str | Path) -> Dump:
    """Read an ETDump; every place it refers to is checked."""
    path = Path(path)
    data = _bytes(path, "ETDump")
    # Written with its size in front, or without.
    start = 4 if data[8:12] == _MARK else 0 if data[4:8] == _MARK else None
    if start is None:
        raise UsageError(
            f"{path} is not an ETDump", hint="what write_etdump_result_to_file or ETDumpGen writes"
        )
    flat = Flat(data[start:], str(path))
    root = flat.root()
    return Dump(path, root.number(0, "u32"), tuple(_run(table) for table in root.tables(1)))


def _bytes(path: Path, what: str) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"{path} is too large for an {what}")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"no such file: {path}") from None
    except OSError as error:
        raise UsageError(f"{path} is not a readable {what}: {error.strerror or error}") from None


def _run(table: Table) -> Run:
    steps: list[Step] = []
    values: list[Value] = []
    for event in table.tables(3):
        profile, debug = event.table(0), event.table(2)
        if profile is not None:
            steps.append(_step(profile))
        if debug is not None:
            values.append(_value(debug))
    bundled = table.number(1, "i32", -1)
    return Run(table.text(0), tuple(steps), tuple(values), None if bundled < 0 else bundled)


def _delegate(table: Table, number: int, text: int) -> int | str | None:
    identifier = table.number(number, "i32", -1)
    return identifier if identifier != -1 else table.text(text) or None


def _step(table: Table) -> Step:
    return Step(
        table.text(0),
        table.number(1, "i32"),
        table.number(2, "i32", -1),
        _delegate(table, 3, 4),
        table.number(6, "u64"),
        table.number(7, "u64"),
        bytes(table.data(5)),
    )


def _value(table: Table) -> Value:
    chain = table.number(0, "u64")
    entry = table.table(2)
    flag = None if entry is None else entry.table(7)
    return Value(
        table.text(5),
        chain - (1 << 64) if chain >> 63 else chain,
        table.number(1, "i32", -1),
        _delegate(table, 3, 4),
        None if entry is None else _entry(entry),
        flag is not None and bool(flag.number(0, "bool")),
    )


def _entry(table: Table) -> TensorAt | tuple[TensorAt, ...] | float | int | bool | None:
    kind = table.number(0, "i8")
    if kind == 5 and (tensor := table.table(1)) is not None:
        return _tensor(tensor)
    if kind == 6 and (several := table.table(2)) is not None:
        return tuple(_tensor(t) for t in several.tables(0))
    # Numbers and flags: the field, and how it is held.
    field, form = {1: (3, "i64"), 2: (6, "bool"), 3: (4, "f32"), 4: (5, "f64")}.get(kind, (0, ""))
    held = table.table(field) if form else None
    return None if held is None else held.number(0, form)


def _tensor(table: Table) -> TensorAt:
    shape = tuple(int(n) for n in table.array(1, "<i8"))
    strides = tuple(int(n) for n in table.array(2, "<i8"))
    offset = table.number(3, "i64")
    return TensorAt(table.number(0, "i8"), shape, strides, None if offset < 0 else offset)


_LARGEST = 1 << 48
"""Elements."""


class DebugBuffer:
    """The tensors of an ETDump, mapped from the file one at a time."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._size = self.path.stat().st_size
        except FileNotFoundError:
            raise UsageError(f"no such file: {self.path}") from None

    def array(self, tensor: TensorAt) -> np.ndarray:
        """A tensor's values, in the order of its axes; a UsageError if they do not lie inside the file."""
        dtype, shape = tensor.dtype, tensor.shape
        if dtype is None:
            raise UsageError(f"{self.path}: a tensor has the unknown number format {tensor.code}")
        if min(shape, default=0) < 0 or len(shape) > 32:
            raise UsageError(f"{self.path}: a tensor has the impossible shape {shape}")
        size = math.prod(shape)
        if not size:
            if math.prod(n for n in shape if n) > _LARGEST:  # numpy refuses it, empty or not
                raise UsageError(f"{self.path}: a tensor has the impossible shape {shape}")
            return np.empty(shape, dtype)
        offset = tensor.offset
        if offset is None:
            raise UsageError(f"{self.path} does not hold this tensor: it was not recorded")
        if offset + size * dtype.itemsize > self._size:
            raise UsageError(
                f"{self.path} is too short: a tensor ends at byte {offset + size * dtype.itemsize} of {self._size}",
                hint="is it the buffer that belongs to this ETDump?",
            )
        held = np.memmap(self.path, np.uint8, "c", offset, (size * dtype.itemsize,)).view(dtype)
        return _ordered(held, tensor)


def _ordered(held: np.ndarray, tensor: TensorAt) -> np.ndarray:
    """The values by their axes: memory may hold another order of them, as strides tell."""
    shape, strides = tensor.shape, tensor.strides
    order = list(range(len(shape)))
    if len(strides) == len(shape):
        order = sorted(order, key=lambda axis: (-strides[axis], axis))
    expected, step = {}, 1
    for axis in reversed(order):
        expected[axis] = step
        step *= shape[axis]
    fits = all(shape[a] == 1 or strides[a] == expected[a] for a in order) if strides else False
    if not fits or order == list(range(len(shape))):
        return held.reshape(shape)
    return held.reshape([shape[a] for a in order]).transpose(np.argsort(order))
