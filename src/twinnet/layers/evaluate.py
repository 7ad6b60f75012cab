"""Evaluate canonical layers in float64, with or without the running error bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from twinnet.layers.graph import Graph

if TYPE_CHECKING:
    import torch

__all__ = ["evaluate", "evaluate_with_error"]


def evaluate(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    *,
    layers: Sequence[int] | None = None,
    keep: Iterable[str] | None = None,
) -> dict[str, torch.Tensor]:
    """Values computed in float64 from `values`; only `layers` (default: all), returning `keep` (default: outputs)."""
    raise NotImplementedError


def evaluate_with_error(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    errors: Mapping[str, torch.Tensor],
    *,
    unit: float,
    layers: Sequence[int] | None = None,
    keep: Iterable[str] | None = None,
) -> dict[str, tuple[torch.Tensor, torch.Tensor | None]]:
    """Like `evaluate`, with an elementwise bound (float32 tensor, or None for exact) of what rounding may add."""
    raise NotImplementedError
