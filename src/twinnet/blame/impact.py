"""Impact: the output error of the network when only one segment's born error is put into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.aggregate import downstream
from twinnet.layers import evaluate
from twinnet.layers.evaluate import wide
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
    """Largest change of any output when `born` is added to `tensor` in the network's own run.

    None if it cannot be computed. `trace` holds the network's tensors; what lies beside the path from
    `tensor` to the outputs is taken from it or computed. The changed run is in float64; where its outputs are
    not far from the network's own, so is the unchanged one, so that rounding does not pass for impact.
    """
    below = downstream(graph, tensor)
    if tensor not in trace:
        return None
    wanted = [o for o in outputs if o in below or o == tensor]
    if not wanted:
        return 0.0
    base = wide(to_tensor(np.asarray(trace[tensor])))
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
    worst = float(born.abs().max()) if tensor in wanted else 0.0
    if not keep:
        return worst
    try:
        changed = evaluate(graph, {**values, tensor: base + born}, layers=layers, keep=keep)
        plain = {n: to_tensor(np.asarray(trace[n])) for n in keep if n in trace}
        if len(plain) < len(keep) or any(_near(plain[n], changed[n]) for n in keep):
            plain = evaluate(graph, {**values, tensor: base}, layers=layers, keep=keep)
    except EngineError:
        return None
    return max(worst, *(output_error(plain[n], changed[n]) for n in keep))


def _near(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a difference is so small that rounding could be a visible part of it."""
    if a.shape != b.shape or not a.numel() or not a.is_floating_point():
        return False
    return output_error(a, b) < 1e-4 * float(torch.where(a.isfinite(), a.abs(), 0.0).max())


def output_error(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest finite difference of two outputs; other shapes are an infinite one.

    >>> output_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    0.5
    >>> output_error(torch.tensor([1 + 1j]), torch.tensor([1 - 1j]))  # of complex ones their distance
    2.0
    """
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    off = (a.to(wide) - b.to(wide)).abs()
    off = off[off.isfinite()]
    return float(off.max()) if off.numel() else 0.0
