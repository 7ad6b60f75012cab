"""Preprocessing steps that one side often does and the other does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinnet.result import Fact, fact

__all__ = ["preparations"]

_STATISTICS = {
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
_GREY = {"mean": (1 / 3, 1 / 3, 1 / 3), "luminance": (0.299, 0.587, 0.114)}


def preparations(x: np.ndarray) -> Iterator[tuple[Fact, np.ndarray]]:
    """Yield the input prepared in other ways, in float64, each with the fact that names it.

    >>> cut_off = fact("prepared.eight_bits", rounded=False)
    >>> round(float(dict(preparations(np.full((1, 1, 2, 2), 0.3)))[cut_off].max() * 255), 6)
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
        for by, weights in _GREY.items():
            grey = np.tensordot(x, np.array(weights), ([1], [0]))[:, None]
            yield fact("prepared.grey", by=by), np.repeat(grey, 3, 1)
    if x.shape[1] > 1:
        batch, channels, rows, columns = x.shape
        yield fact("prepared.laid_out", read=False), x.transpose(0, 2, 3, 1).reshape(x.shape)
        read = x.reshape(batch, rows, columns, channels).transpose(0, 3, 1, 2)
        yield fact("prepared.laid_out", read=True), read


def _rounded(x: np.ndarray) -> Iterator[tuple[Fact, np.ndarray]]:
    low, high = float(x.min()), float(x.max())
    if low < -1 or high > 1:
        return
    offset, scale = (0.0, 255.0) if low >= 0 else (1.0, 127.5)
    # In float32, as whoever does it has them: next to a tie it matters.
    whole = ((x.astype(np.float32) + np.float32(offset)) * np.float32(scale)).astype(np.float64)
    yield fact("prepared.eight_bits", rounded=True), np.rint(whole) / scale - offset
    yield fact("prepared.eight_bits", rounded=False), np.floor(whole) / scale - offset


def _normalised(x: np.ndarray) -> Iterator[tuple[Fact, np.ndarray]]:
    top = 255.0 if float(np.abs(x).max()) > 16 else 1.0
    for name, figures in _STATISTICS.items():
        for order, step in (("RGB", 1), ("BGR", -1)):
            mean, deviation = (top * np.array(f)[::step].reshape(1, 3, 1, 1) for f in figures)
            yield fact("prepared.normalised", by=name, order=order, done=True), (x - mean) / deviation
            # The network is given the normalised input, and the twin the one before.
            undone = x * (deviation / top) + mean / top
            yield fact("prepared.normalised", by=name, order=order, done=False), undone
