"""Pictures made by formula: gradients, edges, texture and letters, to try things without any data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["scene", "write_samples"]


def scene(seed: int = 0, rows: int = 256, columns: int = 256) -> np.ndarray:
    """An RGB image with what natural ones have: smooth light, sharp and soft edges, fine lines, texture.

    >>> scene(3, 32, 48).shape, bool((scene(3) == scene(3)).all()), bool((scene(3) == scene(4)).all())
    ((32, 48, 3), True, False)
    """
    random = np.random.default_rng([7, seed])
    fine = 2  # drawn larger and averaged: edges are not jagged
    h, w = rows * fine, columns * fine
    y, x = np.mgrid[0:h, 0:w] / (fine * 64.0)
    light = random.uniform(60, 200, 3) + 40 * np.sin(x + random.uniform(0, 6))[..., None] * random.uniform(
        -1, 1, 3
    )
    image = light + 30 * np.cos(0.7 * y + random.uniform(0, 6))[..., None] * random.uniform(-1, 1, 3)
    for _ in range(28):
        image = _shape(image, y, x, random)
    grain = random.normal(0, 1, (rows // 2 + 1, columns // 2 + 1))
    grain = np.kron(grain, np.ones((2 * fine, 2 * fine)))[:h, :w]
    image = image + 2.0 * grain[..., None]
    small = image.reshape(rows, fine, columns, fine, 3).mean(axis=(1, 3))
    return np.rint(small).clip(0, 255).astype(np.uint8)


def _shape(image: np.ndarray, y: np.ndarray, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One more disc, bar, grating or letter-like stroke on top."""
    cy, cx = random.uniform(0, float(y.max())), random.uniform(0, float(x.max()))
    angle, size = random.uniform(0, np.pi), random.uniform(0.1, 0.9)
    u = np.cos(angle) * (x - cx) + np.sin(angle) * (y - cy)
    v = np.cos(angle) * (y - cy) - np.sin(angle) * (x - cx)
    kind = random.integers(4)
    if kind == 0:
        inside = u**2 + v**2 < (size * 0.7) ** 2
    elif kind == 1:
        inside = (np.abs(u) < size) & (np.abs(v) < 0.35 * size)
    elif kind == 2:
        inside = (np.abs(u) < size) & (np.abs(v) < size) & (np.sin(u * random.uniform(20, 80)) > 0)
    else:
        inside = np.abs(np.hypot(u, v * 1.5) - 0.6 * size) < random.uniform(0.02, 0.06)
    colour = random.uniform(0, 255, 3) + 60 * (u / size)[..., None] * random.uniform(-1, 1, 3)
    return np.where(inside[..., None], colour, image)


def write_samples(
    folder: str | Path, count: int = 12, *, rows: int = 192, columns: int = 192, first: int = 0
) -> list[Path]:
    """`count` scenes as PNG files; `first` is the seed of the first."""
    from PIL import Image

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for seed in range(first, first + count):
        written.append(target / f"scene{seed:03d}.png")
        Image.fromarray(scene(seed, rows, columns)).save(written[-1])
    return written
