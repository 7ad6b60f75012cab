"""How much memory this process has used."""

from __future__ import annotations

import sys

__all__ = ["peak_memory"]


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes; 0 where the system does not tell.

    >>> peak_memory() >= 0
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
