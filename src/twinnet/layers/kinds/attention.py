"""Scaled dot-product attention, bounded by chaining the bounds of its four steps."""

from __future__ import annotations

import math
from typing import Any

import torch

from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, mag, register
from twinnet.layers.kinds.activation import softmax_error
from twinnet.layers.kinds.linear import bilinear_error


def _heads(t: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Repeat key or value heads so that each query head has one."""
    if t.shape[-3] == like.shape[-3]:
        return t
    return t.repeat_interleave(like.shape[-3] // t.shape[-3], -3)


def _scale(attrs: Attrs, q: torch.Tensor) -> float:
    scale = attrs.get("scale")
    return 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)


def _scores(attrs: Attrs, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.matmul(q, _heads(k, q).transpose(-1, -2)) * _scale(attrs, q)


def _masked(attrs: Attrs, scores: torch.Tensor, mask: Any) -> torch.Tensor:
    if attrs.get("is_causal"):
        rows, columns = scores.shape[-2:]
        past = int(attrs.get("past", 0))
        keep = torch.ones(rows, columns, dtype=torch.bool).tril(past)
        scores = scores.masked_fill(~keep, -math.inf)
    if mask is not None:
        if mask.dtype == torch.bool:
            return scores.masked_fill(~mask, -math.inf)
        scores = scores + mask.to(scores.dtype)
    return scores


def _capped(attrs: Attrs, scores: torch.Tensor) -> torch.Tensor:
    cap = attrs.get("softcap", 0.0)
    return torch.tanh(scores / cap) * cap if cap else scores


def _weights(attrs: Attrs, q: torch.Tensor, k: torch.Tensor, mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
    logits = _masked(attrs, _capped(attrs, _scores(attrs, q, k)), mask)
    weights = torch.softmax(logits, -1)
    empty = torch.isneginf(logits).all(-1, keepdim=True)  # a row that may see nothing attends to nothing
    return logits, torch.where(empty, torch.zeros_like(weights), weights)


def _attention(attrs: Attrs, q: Any, k: Any, v: Any, mask: Any = None) -> tuple[torch.Tensor]:
    _, weights = _weights(attrs, q, k, mask)
    return (torch.matmul(weights, _heads(v, q)),)


def _attention_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    q, k, v = inputs[:3]
    mask = inputs[3] if len(inputs) > 3 else None
    e_mask = errors[3] if len(errors) > 3 else None
    logits, weights = _weights(attrs, q, k, mask)
    scale = abs(_scale(attrs, q))
    product = lambda a, b: torch.matmul(a, _heads(b, a).transpose(-1, -2))  # noqa: E731
    off = bilinear_error(product, inputs, errors, q.shape[-1] + 2, u)
    if off is not None:
        off = off * scale
        if attrs.get("softcap", 0.0) and u:
            off = off.add_(8 * u * attrs["softcap"])
        if mask is not None and mask.dtype != torch.bool and u:
            size = mag(logits) + mag(mask.expand(logits.shape))
            counts = torch.isfinite(logits) & torch.isfinite(
                size
            )  # what is masked has no weight to be wrong in
            off = off + torch.where(counts, size, 0.0).to(torch.float32) * u
    if e_mask is not None:
        off = e_mask.expand(logits.shape) if off is None else off + e_mask
    if off is not None:
        off = torch.where(torch.isfinite(logits), off, 0.0)
    spread = softmax_error(logits, off, weights, -1, u)
    if spread is not None:
        # A row that is masked as a whole has no weights. The unbounded stays a number: times a value of 0 it is none.
        spread = torch.where(spread.isnan(), 0.0, spread).clamp_(max=torch.finfo(spread.dtype).max)
    values = _heads(v, q)
    e_values = None if errors[2] is None else _heads(errors[2], q)
    return (bilinear_error(torch.matmul, (weights, values), (spread, e_values), weights.shape[-1], u),)


register(Kind("attention", _attention, _attention_error))
