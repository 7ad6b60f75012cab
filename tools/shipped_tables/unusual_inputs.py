"""Inputs that tables were not made for, measured: what a card says about failures is a number, not a guess.

Every case is a small set of test images degraded in another way than in training; the score of the tables stands beside
that of doing nothing (or bicubic) to the same input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.restore.benchmarks import benchmarks_in
from twinnet.restore.bicubic import modcrop, shrink
from twinnet.restore.candidates import Candidate
from twinnet.restore.metrics import psnr, psnr_y
from twinnet.restore.tasks import Image, Task, pixels
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.denoise import Denoise

__all__ = ["Case", "cases", "gradient", "measured", "page_of_text"]

Pair = tuple[np.ndarray, np.ndarray]
"""A bad image and the good one."""


@dataclass(frozen=True)
class Case:
    """One kind of input."""

    what: str
    pairs: Sequence[Pair]


def measured(task: Task, model: Candidate, found: Sequence[Case]) -> list[dict[str, Any]]:
    """PSNR of a model and of doing nothing, in dB, for every case."""
    metric = partial(psnr_y, shave=task.scale) if task.scale > 1 else psnr  # of luma, or of all planes
    rows = []
    for case in found:
        ours = [metric(model.restore(low), good) for low, good in case.pairs]
        plain = [metric(task.plain(low), good) for low, good in case.pairs]
        rows.append(
            {
                "what": case.what,
                "tables": round(float(np.mean(ours)), 2),
                "plain": round(float(np.mean(plain)), 2),
            }
        )
    return rows


def cases(task: Task, data: Path) -> list[Case]:
    """The cases of a task; none where its test images are not there."""
    sets = {"sr": "Set5", "denoise": "Set12", "deblock": "classic5"}
    images = [task.target(image) for image in _test_images(task, data, sets[task.name])]
    if not images:
        return []
    make = {"sr": _enlarging, "denoise": _denoising, "deblock": _deblocking}[task.name]
    found = [Case(what, [bad(good) for good in images]) for what, bad in make(task)]
    for what, tones in (
        ("full range: tones stretched to 0..255", _stretched),
        ("studio range: 16..235", _studio),
    ):
        found.append(Case(what, [_made(task, tones(image)) for image in images]))
    text = page_of_text(task.scale)
    found.append(Case("rendered text", [_made(task, text if task.scale > 1 else text[..., 0])]))
    found.append(Case("smooth gradients", [_made(task, gradient())]))
    photos = [_stretched(photo) for photo in _test_images(task, data, "Kodak24")[:6]]
    if photos:
        found.append(
            Case("colour photographs, full range (6 of Kodak24)", [_made(task, photo) for photo in photos])
        )
    others = {"sr": ("Set12", "LIVE1"), "denoise": ("classic5", "LIVE1"), "deblock": ("Set12", "BSD68")}
    for name in others[task.name]:
        more = _test_images(task, data, name)[:24]
        if more:
            what = f"held out: {len(more)} images of {name}"
            found.append(Case(what, [task.degrade(image) for image in more]))
    return found


def _made(task: Task, good: np.ndarray) -> Pair:
    """A picture degraded as people meet it: a colour JPEG is a colour JPEG, noise is rounded to 8 bits."""
    if isinstance(task, Denoise):
        return _noisy(good, task.sigma), good
    if isinstance(task, Deblock):
        return _jpeg(good, task.quality), good
    good = modcrop(good, task.scale)
    return shrink(good, task.scale), good


def _stretched(image: np.ndarray) -> np.ndarray:
    """One pixel in two hundred black, as many white."""
    low, high = np.percentile(image, (0.5, 99.5))
    return pixels((image - low) * (255 / max(high - low, 1)))


def _studio(image: np.ndarray) -> np.ndarray:
    return pixels(16 + _stretched(image) * (219 / 255))


def gradient() -> np.ndarray:
    """A sky: tones that change by less than a level from pixel to pixel, from black to white, gray."""
    rows, columns = np.mgrid[:256, :384]
    return pixels(255 * (0.5 - 0.5 * np.cos(np.pi * (rows / 255 * 0.6 + columns / 383 * 0.4))))


def _test_images(task: Task, data: Path, name: str) -> list[np.ndarray]:
    found, _ = benchmarks_in(data / "images" / "bench", task, [name])
    return [np.asarray(image) for bench in found for image in bench.images()]


def _random() -> np.random.RandomState:
    return np.random.RandomState(7)


def _noisy(image: Image, sigma: float) -> np.ndarray:
    return pixels(image + _random().normal(0, sigma, image.shape))


def _jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    """Through a JPEG file, gray or colour, as cameras and browsers write it."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer))


def page_of_text(scale: int = 1) -> np.ndarray:
    """Black letters on white, some sizes, uint8 RGB.

    >>> page = page_of_text()
    >>> page.shape, int(page.min()) < 30, int(page.max())
    ((256, 384, 3), True, 255)
    """
    from PIL import Image, ImageDraw, ImageFont

    sheet = Image.new("RGB", (384, 256), "white")
    draw, top = ImageDraw.Draw(sheet), 6
    for size in (10, 12, 14, 18, 24, 32, 40):
        font = ImageFont.load_default(max(size, 5 * scale))
        draw.text((6, top), "The quick brown fox jumps over 0123456789", fill="black", font=font)
        top += max(size, 5 * scale) + 8
    return np.asarray(sheet)


Bad = Callable[[np.ndarray], Pair]


def _enlarging(task: Task) -> Iterator[tuple[str, Bad]]:
    n = task.scale

    def small(good: np.ndarray) -> np.ndarray:
        return shrink(good, n)

    for sigma in (5, 15):
        yield (
            f"noise of sigma {sigma} in the small image",
            lambda good, s=sigma: (_noisy(small(good), s), good),
        )
    for quality in (75, 30):
        yield (
            f"small image is a JPEG of quality {quality}",
            lambda good, q=quality: (_jpeg(small(good), q), good),
        )
    yield "shrunk by averaging blocks", lambda good: (_blocks(good, n), good)
    yield "shrunk without a filter: every n-th pixel", lambda good: (good[n // 2 :: n, n // 2 :: n], good)
    yield (
        "blurred before shrinking, sigma 0.4 small pixels",
        lambda good: (small(_blurred(good, 0.4 * n)), good),
    )


def _blocks(image: np.ndarray, n: int) -> np.ndarray:
    rows, columns = modcrop(image, n).shape[:2]
    cut = modcrop(image, n).reshape(rows // n, n, columns // n, n, -1)
    return pixels(cut.mean(axis=(1, 3)))


def _blurred(image: np.ndarray, sigma: float) -> np.ndarray:
    import cv2

    return np.asarray(cv2.GaussianBlur(image, (0, 0), sigma))


def _denoising(task: Task) -> Iterator[tuple[str, Bad]]:
    assert isinstance(task, Denoise)
    for sigma in (task.sigma / 2, task.sigma * 1.5):
        yield f"noise of sigma {sigma:g}", lambda good, s=sigma: (_noisy(good, s), good)
    yield "a fifth of the noise", lambda good: (_noisy(good, task.sigma / 5), good)

    def smooth(good: np.ndarray) -> Pair:
        noise = _blurred(_random().normal(0, 1, good.shape), 1.0)
        return pixels(good + noise * (task.sigma / noise.std())), good

    def specks(good: np.ndarray) -> Pair:
        draw = _random().random_sample(good.shape)
        return np.where(draw < 0.02, 0, np.where(draw > 0.98, 255, good)).astype(np.uint8), good

    yield "noise of the same strength, smoothed over a pixel", smooth
    yield "two black and two white pixels in a hundred", specks


def _deblocking(task: Task) -> Iterator[tuple[str, Bad]]:
    assert isinstance(task, Deblock)
    for quality in (task.quality // 2, min(task.quality * 2, 90)):
        yield f"JPEG quality {quality}", lambda good, q=quality: (_jpeg(good, q), good)
    yield "noise of sigma 10 before compression", lambda good: (_jpeg(_noisy(good, 10), task.quality), good)
    yield "JPEG quality 95", lambda good: (_jpeg(good, 95), good)

    def shifted(good: np.ndarray) -> Pair:
        return _jpeg(good, task.quality)[4:, 4:], good[4:, 4:]

    yield "blocks elsewhere: 4 rows and columns cut off after compression", shifted
    yield "compressed twice", lambda good: (_jpeg(_jpeg(good, task.quality), task.quality), good)
