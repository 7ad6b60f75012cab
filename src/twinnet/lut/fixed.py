"""Fixed-point forms of the float weights that table mode needs: samplers and residuals."""

from __future__ import annotations

import numpy as np

__all__ = ["GAIN_BITS", "WEIGHT_BITS", "fixed_gains", "fixed_weights", "window_offsets"]

WEIGHT_BITS = 14
"""Fraction bits of sampler weights: a weight fits 16 bits, and a weighted sum of pixels fits 32."""
GAIN_BITS = 14
"""Fraction bits of residual weights."""


def fixed_weights(logits: np.ndarray) -> np.ndarray:
    """Softmax of each row as integers that add up to exactly 2^WEIGHT_BITS.

    Rounded down, the rest given to the largest remainders (the first of equals).

    >>> fixed_weights(np.zeros((1, 3))).tolist()
    [[5462, 5461, 5461]]
    """
    raised = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    exact = raised / raised.sum(axis=1, keepdims=True) * (1 << WEIGHT_BITS)
    weights = np.floor(exact).astype(np.int64)
    for row, wanted in zip(weights, exact):
        missing = (1 << WEIGHT_BITS) - int(row.sum())
        row[np.argsort(row - wanted, kind="stable")[:missing]] += 1
    return weights


def fixed_gains(gains: np.ndarray) -> np.ndarray:
    """Residual weights in [0, 1] as integers over 2^GAIN_BITS.

    >>> fixed_gains(np.array([0.5, 2.0])).tolist()
    [8192, 16384]
    """
    return np.rint(gains.astype(np.float64).clip(0, 1) * (1 << GAIN_BITS)).astype(np.int64)


def window_offsets(window: int) -> tuple[tuple[int, int], ...]:
    """Offsets of a sampling window, row by row from the pixel itself to the lower right."""
    return tuple((y, x) for y in range(window) for x in range(window))
