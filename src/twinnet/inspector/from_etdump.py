"""Event blocks of an ETDump, with or without its debug buffer and its ETRecord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.executorch import DebugBuffer, Dump, Method, Node, Record, Run, Sources, Step, TensorAt, Value
from twinnet.inspector.events import FRAMEWORK, Event, EventBlock, Times
from twinnet.signature import dims

__all__ = ["UNITS", "blocks_of"]

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "cycles": 1.0}
"""Nanoseconds in each unit of time; cycles are left as they are."""
_WRAP = 1 << 32

_Place = tuple[int, int, int | str | None]
_Key = tuple[_Place, str]


def blocks_of(
    dump: Dump,
    buffer: DebugBuffer | None,
    record: Record | None,
    *,
    method: str = "forward",
    source: str = "ns",
    target: str = "ms",
) -> tuple[EventBlock, ...]:
    """All blocks in order; runs with the same events are one block, with a time for each of them."""
    if source not in UNITS or target not in UNITS or (source == "cycles") != (target == "cycles"):
        raise UsageError(
            f"times cannot be shown as {target} from {source}", hint=f"units: {', '.join(UNITS)}"
        )
    reader = _Reader(buffer, record, method, dump.runs, UNITS[source] / UNITS[target])
    groups: dict[tuple[Any, ...], list[_Sorted]] = {}
    for run in dump.runs:
        found = _Sorted(run)
        groups.setdefault((run.name, run.bundled_input, tuple(found.rows)), []).append(found)
    return tuple(reader.block(runs, target) for runs in groups.values())


class _Sorted:
    """The events of one run by their place, times and values beside each other."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows: dict[_Key, Step | None] = {}
        self.values: dict[_Place, list[Value]] = {}
        self.outputs: list[Value] = []
        places: dict[_Place, list[Step]] = {}
        for step in run.steps:
            places.setdefault((step.chain, step.instruction, step.delegate), []).append(step)
        for value in run.values:
            if value.output:
                self.outputs.append(value)
                continue
            place = (value.chain, value.instruction, value.delegate)
            self.values.setdefault(place, []).append(value)
            places.setdefault(place, [])
        for place, steps in places.items():
            for step in steps:
                name, number = step.name, 2
                while (place, name) in self.rows:  # an instruction in a loop
                    name, number = f"{step.name}'{number}", number + 1
                self.rows[place, name] = step
            if not steps:
                self.rows[place, self.values[place][0].name] = None


class _Reader:
    def __init__(
        self,
        buffer: DebugBuffer | None,
        record: Record | None,
        method: str,
        runs: Sequence[Run],
        scale: float,
    ) -> None:
        self._buffer, self._scale = buffer, scale
        self._method: Method | None = None
        if record is not None:
            self._method = record.method(method)
        self._sources = None if self._method is None else Sources.of(self._method, runs)
        self._by_handle: dict[int, list[Node]] = {}
        for node in () if self._method is None else self._method.nodes:
            if node.handle is not None:
                self._by_handle.setdefault(node.handle, []).append(node)

    def block(self, runs: Sequence[_Sorted], unit: str) -> EventBlock:
        first = runs[0]
        outputs = [tuple(self._data(v) for v in run.outputs) for run in runs]
        events = tuple(self._event(key, runs) for key in first.rows)
        return EventBlock(
            first.run.name, events, outputs[0], tuple(outputs[1:]), first.run.bundled_input, unit
        )

    def _event(self, key: _Key, runs: Sequence[_Sorted]) -> Event:
        place, name = key
        _, instruction, delegate = place
        steps = [s for run in runs if (s := run.rows[key]) is not None]
        data = [tuple(self._data(v) for v in run.values.get(place, ())) for run in runs]
        framework = name in FRAMEWORK
        handles = None if framework else self._handles(instruction, delegate)
        nodes = self._nodes(handles)
        own = self._own(instruction, delegate) if not framework else None
        return Event(
            name=name if delegate is None else str(delegate),
            perf_data=Times(tuple(self._time(s) for s in steps)) if steps else None,
            op=own.op if own is not None else "",
            op_types=tuple(node.op for node in nodes),
            delegate_debug_identifier=delegate,
            debug_handles=handles[0] if handles is not None and len(handles) == 1 else handles,
            stack_traces={node.name: node.stack_trace for node in nodes},
            module_hierarchy={node.name: node.modules for node in nodes},
            is_delegated_op=delegate is not None,
            delegate_backend_name=self._backend(instruction, delegate, name),
            delegate_debug_metadatas=tuple(s.metadata for s in steps)
            if any(s.metadata for s in steps)
            else (),
            debug_data=data[0],
            shapes=tuple(_shape(v) for v in runs[0].values.get(place, ())),
            later_data=tuple(data[1:]),
            start_time=tuple(s.start for s in steps),
            instruction_id=None if framework else instruction,
            source=own.source if own is not None else "",
            module=own.module if own is not None else "",
        )

    def _time(self, step: Step) -> float:
        # A counter of 32 bits may have started again.
        ticks = step.end - step.start
        return (ticks + _WRAP if ticks < 0 and max(step.start, step.end) < _WRAP else ticks) * self._scale

    def _data(self, value: Value) -> Any:
        held = value.value
        if isinstance(held, TensorAt):
            return self._array(held)
        if isinstance(held, tuple):
            return [self._array(tensor) for tensor in held]
        return held

    def _array(self, tensor: TensorAt) -> np.ndarray | None:
        """The tensor; None without a buffer, or where it was not recorded."""
        if self._buffer is None or (tensor.offset is None and 0 not in tensor.shape):
            return None
        return self._buffer.array(tensor)

    def _handles(self, instruction: int, delegate: int | str | None) -> tuple[int, ...] | None:
        if self._method is None:
            return None
        if delegate is None:
            return self._method.handles.get(instruction)
        inside: Mapping[str, tuple[int, ...]] = self._method.delegate_handles.get(instruction, {})
        return inside.get(str(delegate))

    def _nodes(self, handles: Sequence[int] | None) -> list[Node]:
        found = [node for handle in handles or () for node in self._by_handle.get(handle, ())]
        return list({node.name: node for node in found}.values())

    def _own(self, instruction: int, delegate: int | str | None) -> Node | None:
        """The operator that an instruction runs; a delegate's call runs several."""
        nodes = (
            () if self._sources is None or delegate is not None else self._sources.nodes.get(instruction, ())
        )
        return nodes[0] if len(nodes) == 1 else None

    def _backend(self, instruction: int, delegate: int | str | None, name: str) -> str:
        if self._method is None or (delegate is None and name != "DELEGATE_CALL"):
            return ""
        return self._method.backends.get(instruction, "")


def _shape(value: Value) -> str:
    held = value.value
    if not isinstance(held, TensorAt):
        return ""
    return f"{held.code if held.dtype is None else held.dtype.name} {dims(held.shape)}"
