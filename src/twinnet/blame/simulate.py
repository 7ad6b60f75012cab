"""The twin's output if some of its segments created no error, computed with the network's layers."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch

from twinnet.blame.context import Context
from twinnet.errors import EngineError
from twinnet.layers import evaluate
from twinnet.network.arrays import to_numpy, to_tensor

__all__ = ["simulate"]


def simulate(context: Context, kept: Collection[str]) -> dict[str, np.ndarray]:
    """The outputs, by network name, with the born error of the segments in `kept` taken away.

    Every other segment adds the error it was observed to create, whatever its inputs are: with nothing kept, these are
    the twin's own outputs.
    """
    changed: dict[str, torch.Tensor] = {}
    for pair in context.pairs:
        tensor = pair.site.tensor
        found = context.frontier(pair) if tensor in context.graph.producer else None
        if found is None:
            continue
        layers, values, _ = found
        touched = [n for n in values if n in changed]
        if tensor not in kept and not touched:
            continue
        got = to_tensor(pair.transform.to_network(context.twin_trace[pair.twin_site.tensor]))
        try:
            now = evaluate(
                context.graph, {**values, **{n: changed[n] for n in touched}}, layers=layers, keep=[tensor]
            )[tensor]
            counts = now.is_floating_point() or now.is_complex()
            if tensor not in kept and counts and now.shape == got.shape:
                before = evaluate(context.graph, values, layers=layers, keep=[tensor])[tensor]
                now = now + (got.to(before.dtype) - before)
        except EngineError:
            continue
        changed[tensor] = now
    outputs: dict[str, np.ndarray] = {}
    for ours, theirs in context.outputs:
        if ours in changed:
            outputs[ours] = to_numpy(changed[ours])
        elif theirs in context.twin_trace:
            outputs[ours] = np.asarray(context.twin_trace[theirs])
    return outputs
