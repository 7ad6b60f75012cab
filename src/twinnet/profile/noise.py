"""Times that other work on the machine disturbs as little as possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["QUANTILE", "low"]

QUANTILE = 25


def low(seconds: Sequence[float] | np.ndarray) -> float:
    """A low quantile of some runs: whatever else runs can only make them longer; 0 without runs.

    >>> low([1.0, 1.0, 1.1, 9.0, 30.0])
    1.0
    """
    return float(np.percentile(seconds, QUANTILE)) if len(seconds) else 0.0
