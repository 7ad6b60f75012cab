"""A TFLite file in memory: tensors, operators and signatures, every number checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.flat import Flat, Table
from twinnet.tflite.schema import ACTIVATIONS, DTYPES, OPERATORS, OPTIONS

__all__ = ["Model", "Operator", "Steps", "Subgraph", "Tensor", "read_model"]

MAGIC = b"TFL3"
_MOST, _MOST_GIVEN = 1 << 31, 1 << 27
"""Elements of a tensor, and of an input; a file that declares more is damaged."""
_PACKED = {"int4": (4, True), "uint4": (4, False), "int2": (2, True)}


@dataclass(frozen=True, slots=True)
class Steps:
    """How the integers of a tensor become real numbers: one scale and zero point, or one for each index of `axis`."""

    scale: tuple[float, ...]
    zero: tuple[int, ...]
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. `data` holds a constant's bytes; `shape` has "?" where a size varies, and is None if unknown."""

    index: int
    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    steps: Steps | None = None
    data: memoryview | None = None
    sparse: bool = False

    def array(self) -> np.ndarray:
        """The value of a constant; integers of less than a byte take one each."""
        assert self.data is not None and self.shape is not None
        sizes = tuple(int(n) for n in self.shape)
        count = math.prod(sizes)
        if self.dtype in _PACKED:
            return _unpacked(self.data, count, *_PACKED[self.dtype]).reshape(sizes)
        from twinnet.store import numpy_dtype

        kind = numpy_dtype(self.dtype)
        return np.frombuffer(self.data, kind, count).reshape(sizes)


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its name (that of its code if it is custom), the tensors it reads (-1: none) and makes."""

    index: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    version: int = 1
    custom: bool = False

    @property
    def label(self) -> str:
        """Its name, with that of the activation it applies to its result."""
        fused = self.options.get("fused", 0)
        return f"{self.op}+{ACTIVATIONS[fused]}" if 0 < fused < len(ACTIVATIONS) else self.op


@dataclass(frozen=True)
class Subgraph:
    """Tensors and operators in the order they run."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def producer(self) -> dict[int, int]:
        """The operator that makes each tensor."""
        return {t: o.index for o in self.operators for t in o.outputs}


@dataclass(frozen=True)
class Model:
    """A whole file. `inputs` and `outputs` name the main graph's tensors as its signature does.

    `others` are the names of signatures of other graphs, which nothing here runs.
    """

    subgraphs: tuple[Subgraph, ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    description: str = ""
    size: int = 0
    version: int = 3
    others: tuple[str, ...] = ()

    @property
    def main(self) -> Subgraph:
        return self.subgraphs[0]


def read_model(data: bytes | memoryview, what: str = "the TFLite model") -> Model:
    """Read a file; UsageError if it is no TFLite model or damaged.

    >>> read_model(b"no such thing", "a.tflite")
    Traceback (most recent call last):
    twinnet.errors.UsageError: a.tflite is not a TFLite model
    """
    flat = Flat(data, what)
    if bytes(flat.data[4:8]) != MAGIC:
        raise UsageError(f"{what} is not a TFLite model")
    root = flat.root()
    codes = [_code(table) for table in root.tables(1)]
    buffers = [_buffer(table, flat) for table in root.tables(4)]
    graphs = tuple(_subgraph(table, codes, buffers, flat) for table in root.tables(2))
    if not graphs or not graphs[0].outputs:
        raise UsageError(f"{what} is not a network: it has no graph with outputs")
    for index in graphs[0].inputs:
        sizes = [n for n in graphs[0].tensors[index].shape or () if isinstance(n, int)]
        if math.prod(sizes) > _MOST_GIVEN:
            raise flat.damaged(f"its input {index} has the shape {'x'.join(map(str, sizes))}")
    inputs, outputs = _signature(root, graphs[0])
    others = tuple(table.text(2) for table in root.tables(7) if table.number(4, "u32") != 0)
    return Model(graphs, inputs, outputs, root.text(3), flat.size, root.number(0, "u32"), others)


def _code(table: Table) -> tuple[str, int, bool]:
    code = max(table.number(0, "i8"), table.number(3, "i32"))
    custom = table.text(1)
    name = OPERATORS[code] if 0 <= code < len(OPERATORS) else f"BUILTIN_{code}"
    is_custom = name == "CUSTOM"
    return (custom or name if is_custom else name), table.number(2, "i32", 1), is_custom


def _buffer(table: Table, flat: Flat) -> memoryview:
    start, size = table.number(1, "u64"), table.number(2, "u64")
    if start > 1 and size:  # large models keep data behind the flatbuffer
        if start + size > flat.size:
            raise flat.damaged(f"a buffer ends at byte {start + size} of {flat.size}")
        return flat.data[start : start + size]
    return table.data(0)


def _subgraph(
    table: Table, codes: list[tuple[str, int, bool]], buffers: list[memoryview], flat: Flat
) -> Subgraph:
    tensors = tuple(_tensor(i, t, buffers, flat) for i, t in enumerate(table.tables(0)))

    def indices(source: Table, field: int, absent: bool = False) -> tuple[int, ...]:
        found = tuple(int(n) for n in source.array(field, "<i4"))
        for n in found:
            if not (0 <= n < len(tensors) or (absent and n == -1)):
                raise flat.damaged(f"it refers to tensor {n} of {len(tensors)}")
        return found

    operators = []
    for index, op in enumerate(table.tables(3)):
        place = op.number(0, "u32")
        if place >= len(codes):
            raise flat.damaged(f"it refers to operator code {place} of {len(codes)}")
        name, version, custom = codes[place]
        operators.append(
            Operator(
                index, name, indices(op, 1, True), indices(op, 2, True), _options(op, name), version, custom
            )
        )
    names = [t.name for t in tensors]
    if len(set(names)) < len(names) or "" in names:
        tensors = _renamed(tensors)
    return Subgraph(table.text(4), tensors, tuple(operators), indices(table, 1), indices(table, 2))


def _renamed(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Tensors with unique names."""
    from dataclasses import replace

    taken: set[str] = set()
    made = []
    for tensor in tensors:
        name = tensor.name or f"tensor {tensor.index}"
        while name in taken:
            name = f"{name} #{tensor.index}"
        taken.add(name)
        made.append(replace(tensor, name=name))
    return tuple(made)


def _tensor(index: int, table: Table, buffers: list[memoryview], flat: Flat) -> Tensor:
    code, place = table.number(1, "i8"), table.number(2, "u32")
    if not 0 <= code < len(DTYPES):
        raise flat.damaged(f"tensor {index} has the unknown type {code}")
    if place >= len(buffers):
        raise flat.damaged(f"tensor {index} refers to buffer {place} of {len(buffers)}")
    sizes = tuple(int(n) for n in table.array(0, "<i4"))
    if any(n < 0 for n in sizes) or math.prod(max(n, 1) for n in sizes) > _MOST:
        raise flat.damaged(f"tensor {index} has the shape {'x'.join(map(str, sizes))}")
    dtype, data = DTYPES[code], buffers[place]
    sparse = table.has(6)
    held = data if len(data) else None
    if held is not None and not sparse and dtype in _BITS:
        needed = (math.prod(sizes) * _BITS[dtype] + 7) // 8
        if len(held) < needed:
            raise flat.damaged(f"tensor {index} needs {needed} bytes, its buffer has {len(held)}")
    free = tuple(int(n) for n in table.array(7, "<i4"))
    shape: tuple[int | str, ...] | None = sizes
    if len(free) == len(sizes):
        shape = tuple("?" if f < 0 else n for n, f in zip(sizes, free, strict=True))
    if not sizes and not table.number(8, "bool") and held is None and not table.has(0):
        shape = ()
    return Tensor(
        index, table.text(3), dtype, shape, _steps(table.table(4), sizes, dtype, index, flat), held, sparse
    )  # fmt: skip


_BITS = {
    "float32": 32, "float16": 16, "int32": 32, "uint8": 8, "int64": 64, "bool": 8, "int16": 16, "complex64": 64,
    "int8": 8, "float64": 64, "complex128": 128, "uint64": 64, "uint32": 32, "uint16": 16, "int4": 4, "bfloat16": 16,
    "int2": 2, "uint4": 4, "float8_e4m3fn": 8, "float8_e5m2": 8,
}  # fmt: skip


def _steps(table: Table | None, sizes: tuple[int, ...], dtype: str, index: int, flat: Flat) -> Steps | None:
    if table is None:
        return None
    scale = tuple(float(v) for v in table.array(2, "<f4"))
    zero = tuple(int(v) for v in table.array(3, "<i8"))
    if not scale:
        return None
    axis = table.number(6, "i32")
    if len(zero) not in (0, len(scale)):
        raise flat.damaged(f"tensor {index} has {len(scale)} scales and {len(zero)} zero points")
    if len(scale) > 1 and not (0 <= axis < len(sizes) and sizes[axis] == len(scale)):
        raise flat.damaged(f"tensor {index} has {len(scale)} scales, which fit none of its axes")
    if not all(0 < s < math.inf for s in scale):
        raise flat.damaged(f"tensor {index} has a scale that is not a positive number")
    low, high = _RANGES.get(dtype, (-(2**63), 2**63))
    if any(not low <= z <= high for z in zero):
        raise flat.damaged(f"tensor {index} has a zero point that {dtype} cannot hold")
    return Steps(scale, zero or (0,) * len(scale), axis)


_RANGES = {f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (2, 4, 8, 16, 32)}
_RANGES |= {f"uint{bits}": (0, (1 << bits) - 1) for bits in (4, 8, 16)}


def _options(op: Table, name: str) -> dict[str, Any]:
    fields = OPTIONS.get(name, ())
    table = op.table(4) if fields else None
    if table is None:
        return {label: default for label, _, default in fields if label}
    found: dict[str, Any] = {}
    for place, (label, kind, default) in enumerate(fields):
        if not label:
            continue
        if kind == "ints":
            found[label] = tuple(int(n) for n in table.array(place, "<i4"))
        else:
            found[label] = table.number(place, kind, default)
    return found


def _signature(root: Table, main: Subgraph) -> tuple[Any, Any]:
    """Names of inputs and outputs: those of the signature of the main graph, else those of the tensors.

    The order is that of the graph.
    """
    named: list[dict[int, str]] = [{}, {}]
    for table in root.tables(7):
        if table.number(4, "u32") != 0 or any(named):
            continue
        for part, field_number in zip(named, (0, 1), strict=True):
            for entry in table.tables(field_number):
                part[entry.number(1, "u32")] = entry.text(0)
    ends = (main.inputs, main.outputs)
    made = []
    for names, tensors in zip(named, ends, strict=True):
        known = len(set(names.values())) == len(set(tensors)) and set(names) == set(tensors)
        made.append(tuple((names[t] if known else main.tensors[t].name, t) for t in tensors))
    return made[0], made[1]


def _unpacked(data: memoryview, count: int, bits: int, signed: bool) -> np.ndarray:
    raw = np.frombuffer(data, np.uint8)
    per = 8 // bits
    parts = np.stack([(raw >> (bits * i)) & ((1 << bits) - 1) for i in range(per)], -1).reshape(-1)[:count]
    if not signed:
        return parts.astype(np.uint8)
    return (parts.astype(np.int16) - ((parts >= 1 << (bits - 1)) * (1 << bits))).astype(np.int8)
