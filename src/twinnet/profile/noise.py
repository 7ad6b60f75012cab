"""Times that other work on the machine disturbs as little as possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["deviation", "low"]

_QUANTILE = 25
_SAMPLES = 200


def low(seconds: Sequence[float] | np.ndarray) -> float:
    """A low quantile of some runs: whatever else runs can only make them longer; 0 without runs.

    >>> low([1.0, 1.0, 1.1, 9.0, 30.0])
    1.0
    """
    return float(np.percentile(seconds, _QUANTILE)) if len(seconds) else 0.0


def deviation(seconds: Sequence[float] | np.ndarray) -> float:
    """The deviation of the logarithm of `low`, by resampling; 0 if there is nothing to resample.

    >>> round(deviation([1.0, 1.02, 1.04, 1.06] * 8), 2), deviation([2.0])
    (0.01, 0.0)
    """
    runs = np.asarray(seconds)
    if runs.size < 2:
        return 0.0
    drawn = np.random.default_rng(0).choice(runs, (_SAMPLES, runs.size))
    return float(np.std(np.log(np.maximum(np.percentile(drawn, _QUANTILE, axis=1), 1e-12))))
