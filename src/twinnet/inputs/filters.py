"""Common ways to resize a picture: Pillow's, and those of PyTorch and OpenCV."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

__all__ = ["OWN_FILTER", "resized", "ways_to_resize"]

OWN_FILTER = Image.Resampling.BICUBIC

_PILLOW = {
    Image.Resampling.NEAREST: "nearest",
    Image.Resampling.BOX: "area",
    Image.Resampling.BILINEAR: "bilinear",
    Image.Resampling.HAMMING: "Hamming",
    Image.Resampling.BICUBIC: "bicubic",
    Image.Resampling.LANCZOS: "Lanczos",
}


def resized(
    picture: np.ndarray, size: tuple[int, int], kernel: str, *, antialias: bool, corners: bool = False
) -> np.ndarray:
    """A picture [height, width, channel] in another size (height, width), computed in float64.

    `kernel` is nearest, bilinear, bicubic (a = -0.75), soft bicubic (a = -0.5), area, or whole area, which
    counts partly covered pixels in full. Without `antialias` a kernel
    keeps its width in pixels of the source; `corners` aligns the outermost pixels.

    >>> ramp = np.arange(4.0).reshape(1, 4, 1)
    >>> resized(ramp, (1, 2), "bilinear", antialias=False).ravel().tolist()
    [0.5, 2.5]
    """
    rows, columns = (
        _weights(a, b, kernel, antialias, corners) for a, b in zip(picture.shape, size, strict=False)
    )
    return np.einsum("ij,jkc,lk->ilc", rows, picture.astype(np.float64), columns, optimize=True)


def ways_to_resize(
    picture: Callable[[Image.Resampling | None], np.ndarray], size: tuple[int, int]
) -> Iterator[tuple[str, np.ndarray]]:
    """Each way to resize, as text, and the resulting picture.

    `picture` returns the picture resized by a Pillow filter, or in its own size for None; values are in [0, 1].
    """
    whole = picture(None)
    smaller = size[0] < whole.shape[0] or size[1] < whole.shape[1]

    def said(name: str, antialias: bool) -> str:
        if name == "nearest" or name.startswith("area") or not smaller:
            return name
        return f"{name} {'with' if antialias else 'without'} antialiasing"

    for filter_, name in _PILLOW.items():
        yield said(name, True), picture(filter_)
    for kernel, words in (
        ("nearest", "nearest"),
        ("area", "area"),
        ("whole area", "area of whole pixels"),
        ("bilinear", "bilinear"),
        ("bicubic", "bicubic (a = -0.75)"),
        ("soft bicubic", "bicubic"),
    ):
        for antialias in (False, True) if kernel.endswith(("linear", "cubic")) and smaller else (False,):
            made = resized(whole, size, kernel, antialias=antialias).clip(0.0, 1.0)
            for values in (made, np.rint(made * 255) / 255):
                yield said(words, antialias), values
    made = resized(whole, size, "bilinear", antialias=False, corners=True)
    for values in (made, np.rint(made * 255) / 255):
        yield "bilinear with aligned corners", values


def _weights(source: int, target: int, kernel: str, antialias: bool, corners: bool) -> np.ndarray:
    """How much of each pixel of the source goes into each of the target: [target, source]."""
    ratio = source / target
    at = np.arange(target)
    found = np.zeros((target, source))
    if kernel == "nearest":
        found[at, np.minimum((at * ratio).astype(np.int64), source - 1)] = 1.0
        return found
    if kernel.endswith("area"):
        edges = np.arange(source)
        low, high = at[:, None] * ratio, (at[:, None] + 1) * ratio
        if kernel == "whole area":
            low, high = np.floor(low), np.ceil(high)
        found = np.clip(np.minimum(high, edges + 1) - np.maximum(low, edges), 0.0, None)
        return found / found.sum(axis=1, keepdims=True)
    centre = at * ((source - 1) / max(target - 1, 1)) if corners else (at + 0.5) * ratio - 0.5
    wide = max(ratio, 1.0) if antialias else 1.0
    reach = int(np.ceil(wide * (1 if kernel == "bilinear" else 2)))
    for step in range(-reach, reach + 2):
        pixel = np.floor(centre).astype(np.int64) + step
        weight = _kernel(kernel, (pixel - centre) / wide)
        inside = (pixel >= 0) & (pixel < source)
        # With antialiasing, pixels outside are ignored; otherwise the border is repeated.
        keep = inside if antialias else np.ones_like(inside)
        np.add.at(found, (at[keep], pixel.clip(0, source - 1)[keep]), weight[keep])
    return found / found.sum(axis=1, keepdims=True)


def _kernel(name: str, x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    if name == "bilinear":
        return np.clip(1 - x, 0.0, None)
    a = -0.75 if name == "bicubic" else -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
