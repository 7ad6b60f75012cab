"""Times of a program's steps, from its ETDump."""

from __future__ import annotations

import statistics
from collections.abc import Collection

from twinnet.engines.base import LayerTime
from twinnet.executorch import Dump, Record, Sources

__all__ = ["layer_times"]

_TICKS = 1e-9
"""Seconds per tick of the runtime on this machine, which counts nanoseconds."""


def layer_times(
    dump: Dump, record: Record | None, method: str, known: Collection[str]
) -> tuple[LayerTime, ...]:
    """The median time of each operator and delegate over all executions, in order."""
    runs = dump.executions
    sources = None if record is None else Sources.of(record.method(method), runs)
    times: dict[tuple[int, str], list[int]] = {}
    for run in runs:
        for step in run.steps:
            if step.delegate is None and (
                step.name == "DELEGATE_CALL" or step.name.startswith("native_call_")
            ):
                times.setdefault((step.instruction, step.name), []).append(step.end - step.start)
    found = []
    for (instruction, name), ticks in times.items():
        nodes = () if sources is None else sources.nodes.get(instruction, ())
        origins = [] if record is None else [record.origin(node) for node in nodes]
        kernel = name.removeprefix("native_call_")
        op = kernel if sources is None else sources.backends.get(instruction, kernel)
        tensors = tuple(dict.fromkeys(n for n in origins if n in known))
        found.append(LayerTime(f"{instruction}.{op}", op, statistics.median(ticks) * _TICKS, tensors, kernel))
    return tuple(found)
