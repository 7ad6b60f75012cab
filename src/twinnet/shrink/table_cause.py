"""A known cause on other data: what a twin with this fault gives where the tables and the pixels are random.

The hypotheses of blame are functions of a step. The one that explained a finding says of any table and any pixels what
a twin gives that does it that way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from twinnet.blame.causes import Candidate
from twinnet.blame.causes.family import spoken
from twinnet.blame.problem import Problem
from twinnet.blame.search import proposals, solve
from twinnet.errors import EngineError
from twinnet.layers.graph import Graph, Layer
from twinnet.lut.differences import entries_words
from twinnet.shrink.table_draw import Draw, with_steps
from twinnet.shrink.table_relation import Relation
from twinnet.shrink.table_side import Values, rows_needed, steps_side

__all__ = ["Deed", "alike", "cause_of", "done_as"]

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


@dataclass(frozen=True)
class Deed:
    """What a twin with a known fault does: its result on any values of the steps, and the fault in words."""

    run: Callable[[Values], np.ndarray]
    said: Callable[[Values], str]


def alike(a: str, b: str) -> bool:
    """Whether two causes say the same, numbers aside.

    >>> alike("reads 47 at entry (0,16) where the network has 2", "reads -3 at entry (32,0) where the network has 90")
    True
    """
    return _numberless(a) == _numberless(b)


def _numberless(sentence: str) -> str:
    # Of a table that nobody shows only the rows that were read can be counted.
    sentence = re.sub(r"of the (\d+ rows) that these images pin down", r"of \1", sentence)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", sentence)


def cause_of(layers: Sequence[Layer], values: Values, got: np.ndarray, twin: Sequence[Layer] | None) -> str:
    """The cause that these values show by themselves, as a sentence; empty where they show none."""
    graph = None if twin is None else Graph(tuple(twin), tuple(values), twin[-1].outputs)
    try:
        found = solve(_problem(layers, values, got, graph))
    except EngineError:
        return ""
    return found.cause.sentence if found.cause is not None else ""


def done_as(layers: Sequence[Layer], values: Values, cause: str, draw: Draw) -> Deed | None:
    """A twin that does these steps as `cause` says; None where it is not known how that is done on other data."""
    problem = _problem(layers, values, steps_side(layers).run(values), None)
    named = next((c for c in proposals(problem) if str(c.fact) == cause), None)
    if named is not None:
        return Deed(lambda v: _patched(layers, v, named), lambda v: cause)
    for relation in _RELATIONS:
        made = _other_entries(layers, values, relation, draw)
        if made is not None and alike(made.said(values), cause):
            return made
    return None


def _patched(layers: Sequence[Layer], values: Values, candidate: Candidate) -> np.ndarray:
    problem = _problem(layers, values, steps_side(layers).run(values), None)
    found = problem.run(candidate.change(problem))
    if found is None:
        raise EngineError("this cause cannot be followed here", stage="shrink")
    return found.numpy()


def _other_entries(layers: Sequence[Layer], values: Values, relation: Relation, draw: Draw) -> Deed | None:
    """The steps with other entries in the table of their one lookup."""
    numbers = [i for i, layer in enumerate(layers) if layer.kind == "lookup"]
    tables = [layers[i].attrs["step"].table for i in numbers]
    if len(tables) != 1 or tables[0].banded:
        return None

    def read(given: Values) -> np.ndarray:
        return rows_needed(steps_side(layers), given)[f"{numbers[0]}.values_rows"]

    entries = relation.applied(tables[0], "values", read(values), draw.rng)
    other = with_steps(layers, lambda layer, step: replace(step, table=replace(step.table, values=entries)))

    def said(given: Values) -> str:
        rows = read(given)
        changed = np.zeros(entries.shape, np.int16)
        changed[rows] = entries[rows].astype(np.int16) - tables[0].values[rows]
        words = entries_words(tables[0], changed, None, len(rows))
        return "" if words is None else spoken(words[1].replace("{it}", "the network"))

    return Deed(steps_side(other).run, said)


def _problem(layers: Sequence[Layer], values: Values, got: np.ndarray, twin: Graph | None) -> Problem:
    inputs = {n: torch.from_numpy(np.ascontiguousarray(v, np.float64)) for n, v in values.items()}
    result = torch.from_numpy(np.ascontiguousarray(got, np.float64))
    return Problem(tuple(layers), {}, inputs, layers[-1].outputs[0], result, twin=twin)
