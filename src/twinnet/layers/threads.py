"""Threads of torch's operators: only where tensors are large enough to be shared out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["LONG", "few_threads"]

LONG = 1 << 20
"""Elements of a tensor from which on threads pay: work on smaller ones is over before another has woken up."""


@contextmanager
def few_threads(values: Mapping[str, Any]) -> Iterator[None]:
    """One thread while operators work on `values`, unless one of these is large; then as many as torch has.

    >>> import torch
    >>> with few_threads({"x": torch.ones(3)}):
    ...     torch.get_num_threads()
    1
    """
    import torch

    before = torch.get_num_threads()
    large = any(isinstance(v, torch.Tensor) and v.numel() >= LONG for v in values.values())
    if large or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
