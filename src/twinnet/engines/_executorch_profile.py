"""Times of a program's steps, from its ETDump."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from twinnet.engines.timing import LayerTime, Span
from twinnet.executorch import Node, Record, Run, Sources

__all__ = ["step_times"]

_TICKS = 1e-9
"""Seconds per tick of the runtime on this machine, which counts nanoseconds."""


def step_times(
    runs: Sequence[Run], record: Record | None, method: str, known: Collection[str]
) -> tuple[LayerTime, ...]:
    """Every operator and delegate of these executions, in order."""
    sources = None if record is None else Sources.of(record.method(method), runs)
    spans: dict[tuple[int, str], list[Span]] = {}
    for number, run in enumerate(runs):
        began = next((s.start for s in run.steps if s.name == "Method::execute"), None)
        for step in run.steps:
            if step.delegate is None and (
                step.name == "DELEGATE_CALL" or step.name.startswith("native_call_")
            ):
                start = None if began is None else (step.start - began) * _TICKS
                span = Span(number, (step.end - step.start) * _TICKS, start)
                spans.setdefault((step.instruction, step.name), []).append(span)
    found = []
    for (instruction, name), seen in spans.items():
        nodes = () if sources is None else sources.nodes.get(instruction, ())
        origins = [] if record is None else [record.origin(node) for node in nodes]
        kernel = name.removeprefix("native_call_")
        op = kernel if sources is None else sources.backends.get(instruction, kernel)
        # Values that no instruction makes as they are, too: a product whose sum is only seen in another shape.
        tensors = tuple(dict.fromkeys(n for n in origins if n))
        toward = () if record is None or set(tensors) & set(known) else _toward(nodes, record, method, known)
        found.append(LayerTime(f"{instruction}.{op}", op, tuple(seen), tensors, kernel, toward))
    return tuple(found)


def _toward(nodes: Sequence[Node], record: Record, method: str, known: Collection[str]) -> tuple[str, ...]:
    """The nearest values of the exported program, among those known, that follow from some operators."""
    readers: dict[str, list[Node]] = {}
    for node in record.method(method).nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    found: dict[str, None] = {}
    seen: set[str] = set()
    stack = list(nodes)
    while stack:
        for name in stack.pop().outputs:
            for reader in readers.get(name, ()) if name not in seen else ():
                if (origin := record.origin(reader)) in known:
                    found[origin] = None
                else:
                    stack.append(reader)
            seen.add(name)
    return tuple(found)
