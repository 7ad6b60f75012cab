"""How strongly a JPEG file was compressed, to choose the tables that repair it."""

from __future__ import annotations

from pathlib import Path
from statistics import median

__all__ = ["nearest_level", "quality_of"]

# The luminance table of the standard, which encoders scale by the quality.
_STANDARD = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29,
    51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120,
    101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip


def quality_of(path: str | Path) -> int | None:
    """The quality of a JPEG file in the usual scale of 1 to 100, estimated from its quantisation table; None for
    files of other kinds."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            tables = getattr(image, "quantization", None)
            if (
                image.format not in ("JPEG", "MPO") or not tables
            ):  # MPO: a camera's JPEG with a second picture
                return None
            table = list(tables[min(tables)])
    except (UnidentifiedImageError, OSError):
        return None  # reading the picture reports what is wrong with it
    # Entries end at 255, so low qualities show in the small ones only. The order does not matter: both are sorted.
    shares = [100 * q / s for q, s in zip(sorted(table), sorted(_STANDARD)) if 1 < q < 255]
    if not shares:
        return 100
    scale = median(shares)
    return max(1, min(100, round(5000 / scale if scale > 100 else (200 - scale) / 2)))


def nearest_level(quality: int) -> int:
    """The nearest quality that tables exist for, by ratio: compression grows that way.

    >>> [nearest_level(q) for q in (5, 13, 15, 30, 95)]
    [10, 10, 20, 40, 40]
    """
    from twinnet.models import LEVELS

    return min(LEVELS["deblock"][1], key=lambda level: max(level / quality, quality / level))
