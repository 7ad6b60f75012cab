"""Limits torch to one thread unless tensors are large enough to be shared out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["LONG", "few_threads"]

LONG = 1 << 20
"""Elements from which threads pay off: work on smaller tensors is done before another thread has woken up."""


@contextmanager
def few_threads(values: Mapping[str, Any]) -> Iterator[None]:
    """Use one thread while operators work on `values`, unless one of them is large.

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
