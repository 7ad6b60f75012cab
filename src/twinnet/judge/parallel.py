"""Several pairs at once: one worker per core, each with one torch thread, so that nobody waits for anybody."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

__all__ = ["workers"]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """A pool of threads whose torch operators do not spread over further threads."""
    with ThreadPoolExecutor(min(_cores(), 8), initializer=_one_thread) as pool:
        yield pool


def _one_thread() -> None:
    # Comparing recordings needs no torch, and then does not wait for its import.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
