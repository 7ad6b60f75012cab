"""What a site of the twin should hold, given what the twin itself computed before it."""

from __future__ import annotations

import numpy as np

from twinnet.debugger.stopped import Stopped
from twinnet.debugger.tables import plans_of
from twinnet.errors import UsageError
from twinnet.result import PairResult

__all__ = ["expected"]


def expected(stopped: Stopped, row: PairResult) -> np.ndarray:
    """The network's segment on the twin's own inputs: by its tables, or by its layers in float64.

    >>> import torch
    >>> from twinnet.debugger.start import stop_at_check
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> stopped = stop_at_check(net, torch.ones(1, 4), "torch?dtype=float64")
    >>> row = stopped.row("relu")
    >>> bool(np.allclose(expected(stopped, row), stopped.both(row)[1]))
    True
    >>> stopped.close()
    """
    plans = plans_of(stopped)
    return _by_layers(stopped, row) if plans is None else _by_tables(stopped, plans[0], row)


def _by_layers(stopped: Stopped, row: PairResult) -> np.ndarray:
    held, seen = stopped.held, stopped.seen
    context = (
        None if held is None or seen is None else held.context_of(seen, stopped.trace, stopped.twin_trace)
    )
    found = None if context is None else context.frontier(stopped.pairs[row.site.tensor])
    if context is None or found is None:
        raise UsageError(
            f"the layers before {row.site.tensor} cannot be evaluated", hint="swap(site) can be tried"
        )
    from twinnet.layers import evaluate

    indices, values, _ = found
    name = row.site.tensor
    return evaluate(context.graph, values, layers=indices, keep=[name])[name].numpy()


def _by_tables(stopped: Stopped, plan: object, row: PairResult) -> np.ndarray:
    from twinnet.engines.lut import TableSession, planes_of
    from twinnet.lut.exact import Expected
    from twinnet.lut.plan import Plan

    assert stopped.held is not None and isinstance(plan, Plan)
    twin = stopped.held.sides.twin
    assert isinstance(twin, TableSession)
    meaning, name = Expected(plan), row.twin_site.tensor
    made = []
    for index, plane in enumerate(planes_of(stopped.inputs)):

        def integers(source: str, index: int = index) -> np.ndarray:
            return np.rint(stopped.twin_trace[source][index] / twin.scales[source]).astype(np.int64)

        made.append(meaning.at(name, plane, integers).value)
    return np.stack(made) * twin.scales[name]
