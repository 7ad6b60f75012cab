"""The expected tensor at a site of the twin, given the twin's own inputs to it."""

from __future__ import annotations

import numpy as np

from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.result import PairResult

__all__ = ["expected"]


def expected(stopped: Stopped, row: PairResult) -> np.ndarray:
    """Evaluate the network's segment on the twin's own inputs, in float64.

    >>> import torch
    >>> from twinnet.debugger.start import stop_at_check
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> stopped = stop_at_check(net, torch.ones(1, 4), "torch?dtype=float64")
    >>> row = stopped.row("relu")
    >>> bool(np.allclose(expected(stopped, row), stopped.both(row)[1]))
    True
    >>> stopped.close()
    """
    seen = stopped.now
    context = None if stopped.held is None or seen is None else stopped.held.context(seen)
    name = row.site.tensor
    found = None
    if context is not None and name in context.graph.producer:
        found = context.frontier(stopped.pairs[name])
    if context is None or found is None:
        raise UsageError(f"the layers before {name} cannot be evaluated", hint="try swap(site)")
    from twinnet.layers import evaluate

    indices, values, _ = found
    return evaluate(context.graph, values, layers=indices, keep=[name])[name].numpy()
