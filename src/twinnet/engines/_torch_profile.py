"""Times of the operators of a module, from PyTorch's own profiler.

The module runs as it is. Its operators come in the order of the exported graph, by which each is matched with a node;
operators that only one of the two has are counted towards the node they stand at. An operator lasts from the end of the
one before it: the Python that leads to it, 10 to 30 microseconds at least, is what calling it costs.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from twinnet.engines.timing import WARM_UP, LayerTime, Span, Stopwatch, Timed

__all__ = ["Call", "operators_of", "timed_module"]

_RUN = "twinnet: one run"
_CHAIN, _TRIES = 50, 8


@dataclass(frozen=True, slots=True)
class Call:
    """An operator that a run is expected to execute: its name in PyTorch, and the values it makes."""

    op: str
    tensors: tuple[str, ...]


def operators_of(program: Any) -> list[Call]:
    """The operators of an exported program in order; what only takes a tuple apart belongs to what made it."""
    found: dict[str, tuple[str, list[str]]] = {}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        schema = getattr(node.target, "_schema", None)
        source = next((n.name for n in node.all_input_nodes if n.name in found), "") if schema is None else ""
        if source:
            found[source][1].append(node.name)
        else:
            found[node.name] = (schema.name if schema is not None else str(node.target), [node.name])
    return [Call(op, tuple(made)) for op, made in found.values()]


def timed_module(ready: Callable[[], Callable[[], object]], expected: Sequence[Call], repeats: int) -> Timed:
    """Run a module with the profiler and without, in turns; `ready` gives each run inputs of its own."""
    bare, watched, events = _taken(ready, repeats)
    return Timed(
        _steps(events[WARM_UP:], expected, _cost_of_an_event()),
        tuple(watched.seconds[WARM_UP:]),
        tuple(bare.seconds[WARM_UP:]),
        tuple(bare.cpu[WARM_UP:]),
        looked_cpu=tuple(watched.cpu[WARM_UP:]),
    )


@cache
def _cost_of_an_event() -> float:
    """Seconds that recording an operator takes: a chain of products of single numbers, recorded and not."""
    import torch

    one = torch.ones(1, 1)

    def chain() -> None:
        value = one
        for _ in range(_CHAIN):
            value = torch.nn.functional.linear(value, one)

    bare, watched, events = _taken(lambda: chain, _TRIES)
    least = min(watched.cpu[WARM_UP:]) - min(bare.cpu[WARM_UP:])
    return max(least, 0.0) / max(len(_inside(events[-1])) - 1, 1)


def _taken(ready: Callable[[], Callable[[], object]], repeats: int) -> tuple[Stopwatch, Stopwatch, list[Any]]:
    """Runs without the profiler and with it, in turns, and what it says about each of the latter."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    bare, watched = Stopwatch(), Stopwatch()
    events: list[Any] = []

    def marked(run: Callable[[], object]) -> object:
        with record_function(_RUN):
            return run()

    with torch.no_grad():
        for _ in range(WARM_UP + max(repeats, 1)):
            bare(ready())
            given = ready()
            taken = profile(activities=[ProfilerActivity.CPU])
            with _silent():
                taken.start()
            try:
                watched(lambda: marked(given))  # noqa: B023 - called at once
            finally:
                with _silent():
                    taken.stop()
            events.append(next(e for e in taken.events() or () if e.name == _RUN))
    return bare, watched, events


@contextmanager
def _silent() -> Iterator[None]:
    """Starting and ending the profiler writes a line each to stderr, past Python."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _steps(runs: Sequence[Any], expected: Sequence[Call], cost: float) -> tuple[LayerTime, ...]:
    # A data-dependent network may execute other operators each time; the first run says what there is.
    first = runs[0].cpu_children
    names = [event.name for event in first]
    spans: list[list[Span]] = [[] for _ in first]
    for number, run in enumerate(runs):
        if [event.name for event in run.cpu_children] != names:
            continue
        begun = ended = run.time_range.start
        for place, event in enumerate(run.cpu_children):
            start, ended = ended, event.time_range.end
            spans[place].append(Span(number, (ended - start) * 1e-6, (start - begun) * 1e-6, event.thread))
    steps = []
    for place, (event, (own, toward)) in enumerate(zip(first, _matched(names, expected))):
        name = own[0] if own else f"{_plain(event.name)}.{place}"
        # It is recorded while it lasts, and so are the operators inside it.
        timer = cost * len(_inside(event))
        kernel = str(max(_inside(event), key=lambda e: e.self_cpu_time_total).name)
        steps.append(LayerTime(name, _plain(event.name), tuple(spans[place]), own, kernel, toward, timer))
    return tuple(steps)


def _matched(names: Sequence[str], expected: Sequence[Call]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """For each executed operator, the values it makes and those it helps to make.

    >>> calls = [Call("aten::conv2d", ("a",)), Call("aten::relu", ("b",))]
    >>> _matched(["aten::conv2d", "aten::clamp_min"], calls)
    [(('a',), ()), (('b',), ())]
    >>> _matched(["aten::conv2d", "aten::copy_", "aten::relu_"], calls)
    [(('a',), ()), ((), ('b',)), (('b',), ())]
    """
    ours, theirs = [_plain(c.op) for c in expected], [_plain(n) for n in names]
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), ())] * len(names)
    same = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for _, first, last, begin, end in same.get_opcodes():
        for place in range(begin, end):
            if last - first == end - begin:
                found[place] = expected[first + place - begin].tensors, ()
            else:
                # The nodes that stand there instead, or the next one.
                there = expected[first:last] or expected[first : first + 1] or expected[-1:]
                found[place] = (), tuple(t for call in there for t in call.tensors)
    return found


def _plain(name: str) -> str:
    """An operator without its library, and whether or not it works in place."""
    return name.removeprefix("aten::").removesuffix("_")


def _inside(event: Any) -> list[Any]:
    """An operator and all that it called."""
    found = [event]
    for one in found:
        found.extend(one.cpu_children)
    return found
