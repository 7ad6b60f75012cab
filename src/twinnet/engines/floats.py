"""Engines may switch the thread that calls them to flush subnormal numbers to zero, and leave it so (OpenVINO does).

Everything computed afterwards in that thread would be computed otherwise: our evaluation, the user's program, and
threads started later. So calls into such engines are fenced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

__all__ = ["flushing", "own_floats"]


def flushing() -> bool:
    """Whether this thread turns subnormal numbers into zero.

    >>> flushing()
    False
    """
    return bool((np.full(4, 2.0**-130, np.float32) * np.float32(0.5) == 0).any())


@contextlib.contextmanager
def own_floats() -> Iterator[None]:
    """Afterwards, subnormal numbers are treated as they were before."""
    import torch

    before = flushing()
    try:
        yield
    finally:
        if flushing() != before:
            torch.set_flush_denormal(before)
