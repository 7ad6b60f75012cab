"""Impact: the output error of the network when only one segment's born error is put into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.aggregate import downstream
from twinnet.layers import evaluate
from twinnet.layers.graph import Graph
from twinnet.network.arrays import to_tensor

__all__ = ["impact_of", "output_error"]


def impact_of(
    graph: Graph,
    tensor: str,
    born: torch.Tensor,
    trace: Mapping[str, np.ndarray],
    inputs: Mapping[str, torch.Tensor],
    outputs: tuple[str, ...],
) -> float | None:
    """Largest change of any output when `born` is added to `tensor` in the network's own run; None if not computable.

    `trace` holds the network's tensors; what lies beside the path from `tensor` to the outputs is taken from it or
    computed. Both runs are in float64, so that nothing but the born error separates them.
    """
    below = downstream(graph, tensor)
    if tensor not in trace:
        return None
    wanted = [o for o in outputs if o in below or o == tensor]
    if not wanted:
        return 0.0
    base = to_tensor(np.asarray(trace[tensor])).to(torch.float64)
    if base.shape != born.shape:
        return None
    given = {n for n in trace if n not in below} | {tensor} | set(inputs)
    layers, frontier = graph.segment([o for o in wanted if o != tensor], given)
    values: dict[str, Any] = {}
    for name in frontier:
        if name == tensor:
            continue
        if name in inputs:
            values[name] = inputs[name]
        elif name in trace:
            values[name] = to_tensor(np.asarray(trace[name]))
        else:
            return None
    keep = [o for o in wanted if o != tensor]
    try:
        plain, changed = (evaluate(graph, {**values, tensor: v}, layers=layers, keep=keep) for v in (base, base + born))
    except EngineError:
        return None
    worst = float(born.abs().max()) if tensor in wanted else 0.0
    for name in keep:
        worst = max(worst, output_error(plain[name], changed[name]))
    return worst


def output_error(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest finite difference of two outputs; other shapes are an infinite one.

    >>> output_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    0.5
    """
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    off = (a.to(torch.float64) - b.to(torch.float64)).abs()
    off = off[off.isfinite()]
    return float(off.max()) if off.numel() else 0.0
