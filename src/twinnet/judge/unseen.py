"""Guards about what a run could not show although everything agreed: outputs that never change, files that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinnet.judge.metrics import bit_equal
from twinnet.precision import UNITS
from twinnet.result import Guard, fact

if TYPE_CHECKING:
    from twinnet.judge.deployed import Ends, OutputSeen
    from twinnet.judge.plan import Plan
    from twinnet.layers.graph import Graph

__all__ = ["coarser_than_network", "most_telling", "refused", "same_outputs", "without_numbers"]

Arrays = Mapping[str, np.ndarray]

_ROUNDED = 2.0**12
"""Units of rounding, relative to an output's range, that a computation in its own precision stays within."""

_FEW = 0.01
"""The share of an output that may be NaN or infinite on both sides before a guard says so."""


def most_telling(outputs: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Each output on the sample where it holds the most numbers.

    >>> most_telling([{"y": np.zeros(0)}, {"y": np.ones(2)}])["y"].size
    2
    """
    found: dict[str, np.ndarray] = {}
    for name in outputs[0]:
        arrays = [one[name] for one in outputs if name in one]
        found[name] = max(arrays, key=lambda a: int(np.isfinite(a).sum()) if a.dtype.kind in "fc" else a.size)
    return found


def same_outputs(outputs: Sequence[Arrays], graph: Graph | None) -> list[Guard]:
    """Outputs that were the same in every run: a twin that always gives them passes as well.

    `outputs` are the network's in all runs. Those that no input reaches are constants of the network.
    """
    if len(outputs) < 2:
        return []
    first, fixed = outputs[0], _constant_outputs(graph)
    still = [
        name
        for index, (name, value) in enumerate(first.items())
        if index not in fixed and all(name in o and bit_equal(value, o[name]) for o in outputs[1:])
    ]
    if not still or len(still) == len(first):
        return []  # the null baseline speaks of all of them
    return [Guard("coverage", fact("outputs.still", outputs=tuple(still)))]


def _constant_outputs(graph: Graph | None) -> frozenset[int]:
    """The places of outputs that depend on no input."""
    if graph is None:
        return frozenset()
    moving = set(graph.inputs)
    for layer in graph:
        if any(name in moving for name in layer.inputs):
            moving.update(layer.outputs)
    return frozenset(index for index, name in enumerate(graph.outputs) if name not in moving)


def refused(plan: Plan, moved: Ends | None) -> list[Guard]:
    """A twin that could not run another input of the same kind, although the network could: it may know one input."""
    if moved is None or not plan.twin.live or moved.theirs:
        return []
    return [Guard("null baseline", fact("baseline.refused"), weakens=True)]


def without_numbers(ends: Sequence[OutputSeen], ours: Arrays) -> list[Guard]:
    """Outputs with NaN or infinity on both sides: what the twin computed there cannot be told.

    Minus infinity is what masks are made of, and says that a place is masked.
    """
    found = []
    for end in ends:
        value = ours.get(end.row.name)
        if value is None or value.dtype.kind not in "fc" or not value.size:
            continue
        count = int((np.isnan(value) | (np.isinf(value) & (np.real(value) > 0))).sum())
        if count > _FEW * value.size:
            told = fact("data.nan", output=end.row.name, count=count, elements=value.size)
            found.append(Guard("degenerate data", told, weakens=True))
    return found


def coarser_than_network(plan: Plan, ends: Sequence[OutputSeen], first: Ends) -> list[Guard]:
    """Outputs in float64 of a twin that is held to float32 only, and that are no better than that."""
    if plan.twin.precision != "float32" or plan.units.quantised or plan.tolerances or plan.by_network:
        return []
    found = []
    for end in ends:
        both = first.ours.get(end.row.name), first.theirs.get(end.row.twin_name)
        if any(value is None or value.dtype != np.float64 for value in both):
            continue
        most = max(map(abs, end.difference.range_reference), default=0.0)
        if end.difference.max_abs > _ROUNDED * UNITS["float64"] * most:
            told = fact("outputs.precision", output=end.row.name, network="float64", twin="float32")
            found.append(Guard("structure", told, weakens=True))
    return found
