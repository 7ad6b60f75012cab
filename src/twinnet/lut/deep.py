"""More than 8 bits per sample: tables see greys of 8 bits, what these leave over is resized and added again.

Where a smooth area passes from one grey to the next, tables see an edge of one level. So they run four times, with the
passage in four places, and the mean counts. Smooth areas come out as fine as they were, flat areas stay as they are,
and an image that has only 256 levels gives what it gives in 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from twinnet.lut.model import LutModel

__all__ = ["deep_strips", "enlarged", "run_deep"]

_SHIFTS = (-3 / 8, -1 / 8, 1 / 8, 3 / 8)
"""Of samples before they are rounded to greys; none moves a whole grey to another."""


def run_deep(model: LutModel, image: np.ndarray, most: int = 65535) -> np.ndarray:
    """uint16 [rows, columns(, colours)] of samples 0..`most` to the same, larger by the model's scale."""
    return np.concatenate(list(deep_strips(model, image, most)))


def deep_strips(
    model: LutModel, image: np.ndarray, most: int = 65535, progress: Callable[[float], None] | None = None
) -> Iterator[np.ndarray]:
    """`model.strips` for more than 8 bits."""
    exact = image.astype(np.float32) * np.float32(255 / most)
    greys = [np.rint(exact + shift).clip(0, 255).astype(np.uint8) for shift in _SHIFTS]
    rest = enlarged(exact - np.stack(greys).mean(axis=0, dtype=np.float32), model.scale)
    runs = [model.strips(plane, progress if number == 0 else None) for number, plane in enumerate(greys)]
    done = 0
    for strips in zip(*runs, strict=True):
        mean = np.stack(strips).mean(axis=0, dtype=np.float32)
        samples = (mean + rest[done : done + len(mean)]) * (most / 255)
        done += len(mean)
        yield np.rint(samples).clip(0, most).astype(np.uint16)


def enlarged(image: np.ndarray, scale: int) -> np.ndarray:
    """A float image resized by bicubic interpolation; for what does not go through tables."""
    from PIL import Image

    if scale == 1:
        return image
    planes = image[..., None] if image.ndim == 2 else image
    size = (image.shape[1] * scale, image.shape[0] * scale)
    done = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(planes[..., k])).resize(size, Image.Resampling.BICUBIC)
        )
        for k in range(planes.shape[2])
    ]
    return done[0] if image.ndim == 2 else np.stack(done, axis=-1)
