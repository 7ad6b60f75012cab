"""Continue a run of tables from changed values at some of its sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from twinnet.errors import UsageError
from twinnet.layers.graph import Graph

__all__ = ["carried", "refuse_views"]

_VIEWS = (".input.x", ".input.prev_x")


def refuse_views(names: Iterable[str]) -> None:
    """Refuse to change what a group reads: it is a view of what earlier stages wrote."""
    for name in names:
        if name.endswith(_VIEWS):
            raise UsageError(
                f"{name} only shows what the group reads", hint="patch the stage that writes it instead"
            )


def carried(
    graph: Graph, recorded: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The sites that depend on `given`, when those hold other values than a run `recorded`; in pixel units.

    They are computed by the meaning of the plan (`twinnet.tables.read`); other inputs keep their recorded values.

    >>> from twinnet.tables.read import read_plan
    >>> from twinnet.lut import export, lower
    >>> from twinnet.restore.nets import mulut
    >>> graph = read_plan(lower(export(mulut.build("s", stages=2, scale=2, width=4))))
    >>> seen = {"image": np.zeros((1, 1, 3, 4), np.float32), "stage2.in_c0.input.x": np.zeros((1, 1, 3, 4))}
    >>> list(carried(graph, seen, {"stage1": np.full((1, 1, 3, 4), 7.0)}))
    ['stage2.in_c0.input.x']
    """
    from twinnet.judge.aggregate import downstream
    from twinnet.layers import evaluate
    from twinnet.network.arrays import to_tensor

    refuse_views(given)
    below = set().union(*(downstream(graph, name) for name in given)) - set(given)
    wanted = [name for name in recorded if name in below]
    if not wanted:
        return {}
    known = [*given, *(name for name in recorded if name not in below)]
    layers, frontier = graph.segment(wanted, known)
    values = {name: to_tensor(np.asarray(given.get(name, recorded.get(name)))) for name in frontier}
    return {n: v.numpy() for n, v in evaluate(graph, values, layers=layers, keep=wanted).items()}
