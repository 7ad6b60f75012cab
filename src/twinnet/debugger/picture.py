"""Network, twin and difference side by side as one PNG."""

from __future__ import annotations

import io

import numpy as np

__all__ = ["picture"]

_GAP = 4
_SMALLEST = 160


def picture(network: np.ndarray, twin: np.ndarray) -> bytes:
    """Draw the worst plane of two tensors of the same shape, in the colours of the report.

    >>> picture(np.zeros((4, 4)), np.eye(4))[1:4]
    b'PNG'
    """
    from PIL import Image

    from twinnet.report.pictures import heat_maps

    maps = heat_maps(network, twin)
    height, width = maps[0].shape[:2]
    # Small maps are drawn with large pixels, not smoothed.
    zoom = max(1, min(32, _SMALLEST // max(height, width, 1)))
    large = [np.repeat(np.repeat(m, zoom, axis=0), zoom, axis=1) for m in maps]
    gap = np.full((height * zoom, _GAP, 3), 255, np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(np.hstack([large[0], gap, large[1], gap, large[2]])).save(buffer, "PNG")
    return buffer.getvalue()
