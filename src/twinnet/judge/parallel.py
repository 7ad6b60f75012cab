"""Map over pairs, in parallel for large tensors: one worker per core, each with one torch thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from twinnet.layers.threads import LONG

__all__ = ["mapping"]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


@contextmanager
def mapping(elements: float) -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]:
    """A `map` for work on tensors of about this many elements each.

    Small ones are mapped without threads: handing over Python's lock would take longer than the work.

    >>> with mapping(1000) as over:
    ...     list(over(abs, [-1, 2]))
    [1, 2]
    """
    if elements < LONG or _cores() == 1:
        yield map
        return
    if "torch" in sys.modules:
        # A thread that has not asked yet would get the number that another thread sets below.
        sys.modules["torch"].get_num_threads()
    with ThreadPoolExecutor(min(_cores(), 8), initializer=_one_thread) as pool:
        yield pool.map


def _one_thread() -> None:
    # Comparing recordings needs no torch, and then does not wait for its import.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
