"""Interpolation in tables, in torch: simplex and multilinear, any number of axes, differentiable.

Both give integer *numerators* when values and entries are integers: exact in float64 up to 2^53, and the same
integers as every other executor. Gradients reach the entries visited, and the values through their fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

__all__ = ["Rows", "dense_rows", "interpolate", "multilinear", "simplex"]

Rows = Callable[[Tensor], Tensor]
"""Entries [..., payload] at vertices [..., axes]. A vertex without weight may be answered with any row."""


def dense_rows(table: Tensor, nodes: int) -> Rows:
    """Rows of a dense table [nodes^axes, payload] in C order."""

    def rows(vertex: Tensor) -> Tensor:
        axes = vertex.shape[-1]
        strides = torch.tensor([nodes ** (axes - 1 - k) for k in range(axes)], device=vertex.device)
        flat = (vertex * strides).sum(-1)
        return table.index_select(0, flat.reshape(-1)).reshape(*flat.shape, -1)

    return rows


def _split(values: Tensor, units: int, nodes: int) -> tuple[Tensor, Tensor]:
    bins = torch.div(values.detach(), units, rounding_mode="floor").clamp_(0, nodes - 2)
    return bins.to(torch.int64), values - bins * units


def simplex(values: Tensor, units: int, nodes: int, rows: Rows, compat: str = "") -> Tensor:
    """Numerators [..., payload] over `units` for values [..., axes].

    Sort the fractions; walk from the lower corner to the upper one along the axes in that order; each
    vertex weighs the drop between its neighbours in the sorted list.

    >>> rows = dense_rows(torch.tensor([[0.0], [10.0], [20.0], [40.0]]), nodes=2)
    >>> simplex(torch.tensor([[64.0, 192.0]]), 256, 2, rows)     # a quarter down, three quarters right
    tensor([[3840.]])
    """
    bins, frac = _split(values, units, nodes)
    axes = values.shape[-1]
    falling, order = torch.topk(frac, axes, dim=-1)
    edge = torch.full_like(falling[..., :1], units)
    bounds = torch.cat([edge, falling, torch.zeros_like(edge)], dim=-1)
    weights = bounds[..., :-1] - bounds[..., 1:]
    vertex = bins
    total = weights[..., :1] * rows(vertex)
    along = torch.eye(axes, dtype=torch.int64, device=values.device)
    for i in range(axes):
        vertex = vertex + along[order[..., i]]
        total = total + weights[..., i + 1 : i + 2] * rows(vertex)
    if compat == "srlut-2021":
        a, b, c, d = frac.unbind(-1)
        slip = (c >= a) & (a > b) & (c > d) & (d > a)
        corners = torch.tensor(((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1)))
        parts = zip(corners.to(bins.device), (units - c, c - a, a - d, d - b, b))
        wrong = torch.stack([weight[..., None] * rows(bins + corner) for corner, weight in parts]).sum(0)
        total = torch.where(slip[..., None], wrong, total)
    return total


def multilinear(values: Tensor, units: int, nodes: int, rows: Rows) -> Tensor:
    """Numerators [..., payload] over units^axes for values [..., axes].

    >>> rows = dense_rows(torch.tensor([[0.0], [10.0], [20.0], [40.0]]), nodes=2)
    >>> multilinear(torch.tensor([[64.0, 192.0]]), 256, 2, rows) / 256**2
    tensor([[14.3750]])
    """
    bins, frac = _split(values, units, nodes)
    both = torch.stack([units - frac, frac], dim=-1)
    total: Tensor | None = None
    for corner in product((0, 1), repeat=values.shape[-1]):
        weight = both[..., 0, corner[0]]
        for axis in range(1, len(corner)):
            weight = weight * both[..., axis, corner[axis]]
        part = weight[..., None] * rows(bins + torch.tensor(corner, device=bins.device))
        total = part if total is None else total + part
    assert total is not None
    return total


def interpolate(values: Tensor, units: int, nodes: int, rows: Rows, how: str, compat: str = "") -> Tensor:
    """Simplex or multilinear numerators."""
    if how == "simplex":
        return simplex(values, units, nodes, rows, compat)
    return multilinear(values, units, nodes, rows)
