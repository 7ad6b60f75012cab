"""Bicubic resampling exactly as MATLAB's `imresize` does it, in the two roundings found in published data.

`"matlab"` rounds to 8 bit after the vertical and again after the horizontal pass, which is what `imresize`
does on uint8 images and how most benchmark images were made. `"once"` rounds a single time at the end, as
for images held in floating point. The two differ in about a tenth of all samples, by one or two, so scores
must not mix them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from twinnet.errors import UsageError

__all__ = ["Recipe", "enlarge", "modcrop", "shrink"]

Recipe = Literal["matlab", "once"]
Taps = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def modcrop(image: np.ndarray, scale: int) -> np.ndarray:
    """Cut rows and columns off until `scale` divides the size.

    >>> modcrop(np.zeros((10, 11)), 4).shape
    (8, 8)
    """
    return image[: image.shape[0] // scale * scale, : image.shape[1] // scale * scale]


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys' kernel, a = -0.5."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x <= 1, near, np.where(x <= 2, far, 0.0))


def _weights(size: int, centre: np.ndarray, stretch: int) -> tuple[np.ndarray, np.ndarray]:
    """Source positions and weights around every centre along one axis, the kernel `stretch` times as wide."""
    position = np.floor(centre - 2 * stretch)[:, None] + np.arange(4 * stretch + 2)
    weight = _cubic((centre[:, None] - position) / stretch) / stretch
    weight /= weight.sum(axis=1, keepdims=True)
    # Symmetric border: ... 1 0 | 0 1 2 ... n-1 | n-1 n-2 ...
    index = np.mod(position.astype(np.int64) - 1, 2 * size)
    return np.where(index < size, index, 2 * size - 1 - index), weight


def _coarser(size: int, scale: int) -> tuple[np.ndarray, np.ndarray]:
    return _weights(size, (np.arange(1, math.ceil(size / scale) + 1) - 0.5) * scale + 0.5, scale)


def _finer(size: int, scale: int) -> tuple[np.ndarray, np.ndarray]:
    return _weights(size, (np.arange(1, size * scale + 1) - 0.5) / scale + 0.5, 1)


def _pass(image: np.ndarray, taps: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Along the first axis."""
    index, weight = taps
    out = np.zeros((len(index), *image.shape[1:]))
    for k in range(index.shape[1]):
        out += weight[:, k].reshape(-1, *[1] * (image.ndim - 1)) * image[index[:, k]]
    return out


def _round(image: np.ndarray) -> np.ndarray:
    return np.floor(image.clip(0, 255) + 0.5)


def shrink(image: np.ndarray, scale: int, recipe: Recipe = "matlab") -> np.ndarray:
    """A uint8 image [rows, columns(, colours)] made `scale` times smaller; odd sizes round up.

    >>> shrink(np.full((8, 9, 3), 77, np.uint8), 4).tolist()[0][0]
    [77, 77, 77]
    """
    return _resample(image, scale, recipe, _coarser)


def enlarge(image: np.ndarray, scale: int) -> np.ndarray:
    """A uint8 image made `scale` times larger: what super-resolution is compared with.

    >>> enlarge(np.full((2, 3), 77, np.uint8), 2).shape
    (4, 6)
    """
    return _resample(image, scale, "matlab", _finer)


def _resample(image: np.ndarray, scale: int, recipe: Recipe, taps: Taps) -> np.ndarray:
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.size == 0:
        raise UsageError(f"resampling takes a uint8 image, not {image.dtype}{list(image.shape)}")
    if scale < 1:
        raise UsageError(f"cannot resample by {scale}")
    tall = _pass(image.astype(np.float64), taps(image.shape[0], scale))
    if recipe == "matlab":
        tall = _round(tall)
    elif recipe != "once":
        raise UsageError(f"unknown bicubic recipe {recipe!r}", hint="use matlab or once")
    wide = np.swapaxes(_pass(np.swapaxes(tall, 0, 1), taps(image.shape[1], scale)), 0, 1)
    return _round(wide).astype(np.uint8)
