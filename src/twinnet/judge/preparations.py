"""What is often done to a picture before the first layer, on one side and not on the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["preparations"]

_STATISTICS = {
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
_GREY = {"the mean": (1 / 3, 1 / 3, 1 / 3), "the luminance": (0.299, 0.587, 0.114)}


def preparations(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The input prepared otherwise, in float64, and each way in words that follow "takes the input".

    >>> round(float(dict(preparations(np.full((1, 1, 2, 2), 0.3)))["cut off to 8 bits"].max() * 255), 6)
    76.0
    """
    x = x.astype(np.float64)
    if not x.size:
        return
    yield from _rounded(x)
    if x.ndim != 4:
        return
    if x.shape[1] == 3:
        yield from _normalised(x)
        for words, weights in _GREY.items():
            grey = np.tensordot(x, np.array(weights), ([1], [0]))[:, None]
            yield f"grey, {words} of its channels in each of them", np.repeat(grey, 3, 1)
    if x.shape[1] > 1:
        batch, channels, rows, columns = x.shape
        yield "laid out as NHWC under the shape of NCHW", x.transpose(0, 2, 3, 1).reshape(x.shape)
        read = x.reshape(batch, rows, columns, channels).transpose(0, 3, 1, 2)
        yield "read as NHWC where it is laid out as NCHW", read


def _rounded(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    low, high = float(x.min()), float(x.max())
    if low < -1 or high > 1:
        return
    offset, scale = (0.0, 255.0) if low >= 0 else (1.0, 127.5)
    # In float32, as whoever does it has them: next to a tie it matters.
    whole = ((x.astype(np.float32) + np.float32(offset)) * np.float32(scale)).astype(np.float64)
    yield "rounded to 8 bits", np.rint(whole) / scale - offset
    yield "cut off to 8 bits", np.floor(whole) / scale - offset


def _normalised(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    top = 255.0 if float(np.abs(x).max()) > 16 else 1.0
    for name, figures in _STATISTICS.items():
        for order, step in (("", 1), (" in the order BGR", -1)):
            mean, deviation = (top * np.array(f)[::step].reshape(1, 3, 1, 1) for f in figures)
            what = f"the mean and deviation of {name}{order}"
            yield f"normalised by {what}", (x - mean) / deviation
            # The network is given the normalised input, and the twin the one before.
            undone = x * (deviation / top) + mean / top
            yield f"without the normalisation by {what}", undone
