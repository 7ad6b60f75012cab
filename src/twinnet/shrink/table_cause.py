"""A known cause on other data: what a twin with this fault gives where the tables and the pixels are random.

The hypotheses of blame are functions of a step. The one that explained a finding says of any table and any pixels what
a twin gives that does it that way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from twinnet.blame.problem import Problem
from twinnet.blame.search import INAPPLICABLE, proposals, solve, spoken
from twinnet.layers.graph import Graph, Layer
from twinnet.lut.differences import entries_words
from twinnet.lut.variants import Lookup
from twinnet.shrink.table_draw import Draw, with_steps
from twinnet.shrink.table_relation import Relation
from twinnet.shrink.table_side import Values, rows_needed, steps_side

__all__ = ["alike", "cause_of", "done_as"]

_SIZE = (12, 60)
"""Amounts by which entries differ that nobody has seen."""
_RELATIONS = (
    Relation("rows", single=True, low=_SIZE[0], high=_SIZE[1]),
    Relation("rows", low=_SIZE[0], high=_SIZE[1]),
    Relation("rows", share=0.02, low=_SIZE[0], high=_SIZE[1]),
    Relation("last", low=_SIZE[0], high=_SIZE[1]),
    Relation("all", low=_SIZE[0], high=_SIZE[1]),
    Relation("sign"),
)


def alike(a: str, b: str) -> bool:
    """Whether two causes say the same, numbers aside.

    >>> alike("reads 47 at entry (0,16) where the network has 2", "reads -3 at entry (32,0) where the network has 90")
    True
    """
    first, second = (re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", s) for s in (a, b))
    return first == second


def cause_of(layers: Sequence[Layer], values: Values, got: np.ndarray, twin: Sequence[Layer] | None) -> str:
    """The cause that these values show by themselves, as a sentence; empty where they show none."""
    graph = None if twin is None else Graph(tuple(twin), tuple(values), twin[-1].outputs)
    try:
        found = solve(_problem(layers, values, got, graph))
    except INAPPLICABLE:
        return ""
    return found.cause.sentence if found.cause is not None else ""


def done_as(layers: Sequence[Layer], values: Values, cause: str, draw: Draw) -> tuple[np.ndarray, str] | None:
    """What a twin gives that does these steps as `cause` says, and the cause in words; None where that is not known."""
    problem = _problem(layers, values, steps_side(layers).run(values), None)
    for candidate in proposals(problem):
        if spoken(candidate.sentence) == cause:
            try:
                found = problem.run(candidate.change(problem))
            except INAPPLICABLE:
                return None
            return None if found is None else (found.numpy(), cause)
    for other, said in _other_entries(layers, values, draw):
        if alike(said, cause):
            return steps_side(other).run(values), said
    return None


def _other_entries(
    layers: Sequence[Layer], values: Values, draw: Draw
) -> Iterator[tuple[tuple[Layer, ...], str]]:
    """The steps with other entries in the table of the one lookup, and how that is said."""
    lookups: list[Any] = [layer.attrs["step"] for layer in layers if layer.kind == "lookup"]
    if len(lookups) != 1 or lookups[0].table.banded:
        return
    table = lookups[0].table
    number = next(i for i, layer in enumerate(layers) if layer.kind == "lookup")
    read = rows_needed(steps_side(layers), values)[f"{number}.values_rows"]
    for relation in _RELATIONS:
        entries = relation.applied(table, "values", read, draw.rng)
        changed = entries.astype(np.int16) - table.values
        changed[np.setdiff1d(np.arange(len(changed)), read)] = 0
        said = entries_words(table, changed, None, len(read))
        if said is not None:

            def other(layer: Layer, step: Lookup, entries: np.ndarray = entries) -> Lookup:
                return replace(step, table=replace(step.table, values=entries))

            yield with_steps(layers, other), spoken(said[1].replace("{it}", "the network"))


def _problem(layers: Sequence[Layer], values: Values, got: np.ndarray, twin: Graph | None) -> Problem:
    inputs = {n: torch.from_numpy(np.ascontiguousarray(v, np.float64)) for n, v in values.items()}
    result = torch.from_numpy(np.ascontiguousarray(got, np.float64))
    return Problem(tuple(layers), {}, inputs, layers[-1].outputs[0], result, twin=twin)
