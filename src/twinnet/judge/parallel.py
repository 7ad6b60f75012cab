"""Pairs one after the other, or several at once: one worker per core, each with one torch thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

__all__ = ["mapping"]

_LONG = 1 << 20
"""Elements of a tensor from which on threads pay: work on smaller ones is over before Python has changed hands."""


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


@contextmanager
def mapping(elements: float) -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]:
    """A `map` for work on tensors of about this many elements; torch operators do not spread over further threads.

    >>> with mapping(1000) as over:
    ...     list(over(abs, [-1, 2]))
    [1, 2]
    """
    if elements >= _LONG and _cores() > 1:
        with ThreadPoolExecutor(min(_cores(), 8), initializer=_threads, initargs=(1,)) as pool:
            yield pool.map
        return
    before = _threads(1)
    try:
        yield map
    finally:
        _threads(before)


def _threads(count: int) -> int:
    """Set the threads of torch's operators; how many they were."""
    # Comparing recordings needs no torch, and then does not wait for its import.
    if "torch" not in sys.modules:
        return count
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    return before
