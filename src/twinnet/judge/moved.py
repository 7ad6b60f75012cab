"""Guessed pairs that hold something else in the twin, because what reads them was given other weights to match.

`linear(linear(x) + c)` may be a first layer without the sum and a second one with another bias: nothing is wrong, and
nothing in the twin is the first layer's result. Such a pair is let go if it fails, all that reads it fails on what it
holds, and all that reads it agrees when judged across it. Nothing wrong is let go that way: all paths from it to the
outputs are still judged, and what the readers are off by is more than the longer segments allow, so that it can only
have been made good.

A constant that was moved and is wrong fails across the pair too. The pair is let go then as well, if it and all that
reads it are off by constants alone: its own difference is no fault, and the longer segment has the one that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from twinnet.errors import EngineError
from twinnet.judge.aggregate import visible
from twinnet.judge.metrics import compare, why_not
from twinnet.judge.plan import Plan, with_judge
from twinnet.judge.sample import Seen
from twinnet.judge.verdicts import Born
from twinnet.layers.graph import Graph
from twinnet.pairing import Pair
from twinnet.result import Guard, fact

__all__ = ["without_moved"]

_GUESSED = {"topology", "module", "fingerprint"}

_LONGEST = 4
"""How many pairs on end may hold something else; more than that is another network."""

_CONSTANT = 0.05
"""How much a difference may vary, as a share of its size, to count as constant: integers round it."""

_COARSEST = 2.0**-14
"""The unit for a quick look at twins in few bits: a sixteenth of the range counts as apart, rounding seldom does."""


def without_moved(plan: Plan, seen: Seen) -> Plan:
    """The plan without pairs that hold something else in the twin by one sample, with a note of them."""
    if plan.graph is None or plan.test is None or plan.by_network:
        return plan
    apart = {p.site.tensor: p for p in plan.pairing.pairs if p.how in _GUESSED and _differs(plan, seen, p)}
    gone: set[str] = set()
    for tensor in apart:
        if tensor not in gone:
            gone |= _moved(plan, seen, tensor, apart)
    gone = gone or _moved_wrongly(plan, seen, apart)
    if not gone:
        return plan
    names = tuple(p.site.tensor for p in plan.pairing.pairs if p.site.tensor in gone)
    note = Guard("note", fact("pairing.moved", tensors=names))
    observed = replace(plan.observed, guards=(*plan.observed.guards, note))
    return with_judge(replace(plan, pairing=plan.pairing.without(gone), observed=observed))


def _moved(plan: Plan, seen: Seen, tensor: str, apart: Mapping[str, Pair]) -> set[str]:
    """The tensors that hold something else from this one on; empty if it is right, or simply wrong.

    A quick look at values comes first: what is visibly `apart` must be followed by what is not.
    """
    assert plan.graph is not None
    pairs = {p.site.tensor: p for p in plan.pairing.pairs}
    gone, more = set[str](), {tensor}
    readers: set[str] = set()
    while more:
        gone |= more
        readers = _readers(plan.graph, gone, pairs)
        more = readers & set(apart)
        if not readers or len(gone) > _LONGEST:
            return set()
    if any(_differs(plan, seen, pairs[n]) for n in readers):
        return set()
    own = _judge(plan, seen)
    if own(pairs[tensor]).status != "fail":
        return set()
    across = _judge(with_judge(replace(plan, pairing=plan.pairing.without(gone))), seen)
    return gone if all(_made_good(own(pairs[n]), across(pairs[n])) for n in readers) else set()


def _moved_wrongly(plan: Plan, seen: Seen, apart: Mapping[str, Pair]) -> set[str]:
    """The first tensor that fails, if it and its readers are off by constants alone: nothing passes without it."""
    assert plan.graph is not None
    pairs = {p.site.tensor: p for p in plan.pairing.pairs}
    own = _judge(plan, seen)
    first = next((t for t in list(apart)[:_LONGEST] if own(pairs[t]).status == "fail"), None)
    readers = set() if first is None else _readers(plan.graph, {first}, pairs)
    if first is None or not readers or any(own(pairs[n]).status != "fail" for n in readers):
        return set()
    across = _judge(with_judge(replace(plan, pairing=plan.pairing.without({first}))), seen)
    if any(across(pairs[n]).status != "fail" for n in readers):
        return set()
    return {first} if all(_shifted(plan, seen, pairs[n]) for n in (first, *readers)) else set()


def _made_good(own: Born, across: Born) -> bool:
    """Whether a reader fails on what it reads and agrees across it, by more than the longer segment allows."""
    if own.status != "fail" or across.status != "pass" or own.born is None or across.floor is None:
        return False
    return own.born > across.limit * across.floor


def _shifted(plan: Plan, seen: Seen, pair: Pair) -> bool:
    """Whether a pair is off by a constant for each channel, the same all over the tensor."""
    from twinnet.judge.born import BornTest
    from twinnet.layers import evaluate

    assert isinstance(plan.test, BornTest) and plan.graph is not None
    found = plan.test.frontiers(seen.twin_sample, seen.trace, seen.twin_trace)(pair)
    if found is None:
        return False
    layers, values, _ = found
    tensor = pair.site.tensor
    try:
        expected = evaluate(plan.graph, values, layers=layers, keep=[tensor])[tensor].numpy()
    except EngineError:
        return False
    off = np.asarray(pair.transform.to_network(seen.twin_trace[pair.twin_site.tensor])) - expected
    # Channels are the second axis of an image, the last one of anything else.
    rows = np.moveaxis(off, 1 if off.ndim == 4 else -1, -1).reshape(-1, off.shape[-1 if off.ndim != 4 else 1])
    if len(rows) < 2:
        return False
    shift = rows.mean(0)
    return float(np.abs(rows - shift).max()) < _CONSTANT * float(np.abs(shift).max())


def _judge(plan: Plan, seen: Seen) -> Callable[[Pair], Born]:
    assert plan.test is not None
    return plan.test.on(seen.twin_sample, seen.trace, seen.twin_trace)


def _differs(plan: Plan, seen: Seen, pair: Pair) -> bool:
    """Whether the two tensors are visibly apart: a quick look that spares most pairs the born test."""
    ours, theirs = seen.tensors(pair)
    unit = min(plan.units.plain, _COARSEST)
    return why_not(ours, theirs) is None and visible(compare(ours, theirs), unit, pair.site.op)


def _readers(graph: Graph, tensors: set[str], pairs: Mapping[str, Pair]) -> set[str]:
    """The nearest paired tensors computed from these; none if an output can be reached without passing one."""
    found: set[str] = set()
    stack, seen = list(tensors), set(tensors)
    while stack:
        name = stack.pop()
        if name in graph.outputs:
            return set()
        for index in graph.consumers.get(name, ()):
            for made in graph.layers[index].outputs:
                if not made or made in seen:
                    continue
                if made in pairs:
                    found.add(made)
                else:
                    seen.add(made)
                    stack.append(made)
    return found
