"""Several pairs at once: one worker per core, each with one torch thread, so that nobody waits for anybody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

__all__ = ["workers"]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """A pool of threads whose torch operators do not spread over further threads."""
    count = min(_cores(), 8)
    with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield pool
