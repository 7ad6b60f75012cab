"""Protect the thread from engines that leave it flushing subnormal numbers to zero, as OpenVINO does.

Otherwise everything computed later in that thread would change: our evaluation, the user's program, and threads
started from it.
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
    """Restore the treatment of subnormal numbers afterwards."""
    import torch

    before = flushing()
    try:
        yield
    finally:
        if flushing() != before:
            torch.set_flush_denormal(before)
