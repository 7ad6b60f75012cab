"""Image files in: what Pillow reads, as planes of 8 or 16 bits, with what else the file says about its picture."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError, foreign_as
from twinnet.files import check_picture_size

__all__ = ["SUFFIXES", "About", "Picture", "is_picture", "pictures", "read_picture"]

SUFFIXES = frozenset([
    ".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2",
    ".j2k", ".tga", ".avif", ".ico",
])  # fmt: skip
_MAX_PIXELS = 1 << 30
_ORIENTATION = 0x0112
_TAGS = (0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x013B, 0x8298)
"""EXIF: description, maker, model, software, time, artist, copyright. In a TIFF, others describe its pixels."""
_IFDS = (0x8769, 0x8825)
"""EXIF: the exposure and all about it, and the place."""


@dataclass(frozen=True)
class About:
    """What a file says about its picture and a result should say, too."""

    icc: bytes | None = None
    """Its colour profile."""
    dpi: tuple[float, float] | None = None
    exif: Any = None
    """A Pillow `Exif`, without the rotation, which is applied when the picture is read; None if there is none."""


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as the networks take it: [rows, columns] or [rows, columns, 3], and its alpha, if any.

    Both are uint8, or both are uint16.
    """

    pixels: np.ndarray
    alpha: np.ndarray | None = None
    about: About = field(default_factory=About)

    @property
    def deep(self) -> bool:
        """Whether it has 16 bits per sample."""
        return self.pixels.dtype == np.uint16


def is_picture(path: Path) -> bool:
    """Whether the name looks like an image file that is meant to be seen."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _depth(image: Any, path: Path) -> int:
    """Bits per sample in the file, which Pillow sometimes hides by dropping the low byte; 32 for floats."""
    if image.mode.startswith("F"):
        return 32
    if image.format == "PNG":
        with path.open("rb") as file:
            return file.read(25)[24]
    if image.format == "TIFF":
        bits = image.tag_v2.get(258, 8)
        return max(bits) if isinstance(bits, tuple) else int(bits)
    return 16 if image.mode.startswith("I") else 8


def read_picture(path: str | Path, *, deep: bool = False) -> Picture:
    """Read an image. Palettes and other colour spaces become RGB; alpha is kept apart.

    More than 8 bits per sample are refused, unless `deep` allows 16 (PNG, and gray TIFF).
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    source = Path(path)
    if not source.is_file():
        raise UsageError(f"no such file: {source}")
    if not source.stat().st_size:
        raise UsageError(f"{source} is empty: it has 0 bytes")

    def unreadable(error: BaseException) -> UsageError:
        if isinstance(error, IndexError):
            return UsageError(f"{source} is truncated")
        known = not isinstance(
            error, UnidentifiedImageError
        )  # which says only that it does not know the file
        return UsageError(f"{source} is not a readable image" + (f": {error}" if known else ""))

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, _MAX_PIXELS
    try:
        # A damaged image can fail in any way.
        with foreign_as(unreadable), warnings.catch_warnings(), Image.open(source) as image:
            warnings.simplefilter("ignore")
            check_picture_size(source, *image.size)
            bits = _depth(image, source)
            if bits > 8 and not deep:
                raise UsageError(
                    f"{source} has more than 8 bits per sample, and table networks index 8-bit pixels",
                    hint="convert it to 8 bits first, choosing yourself how to scale its range",
                )
            count = getattr(image, "n_frames", 1)
            # In a camera's MPO the first picture is the photograph; a depth map or a preview follows.
            if count > 1 and image.format != "MPO":
                many = "pages" if image.format == "TIFF" else "frames"
                raise UsageError(f"{source} has {count} {many}", hint=f"extract its {many} first")
            if bits > 8:
                return _deep_picture(image, source, bits)
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return _picture(image)
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _picture(image: Any) -> Picture:
    gray = image.mode in ("1", "L", "LA", "La")
    clear = image.has_transparency_data
    mode = ("L" if gray else "RGB") + ("A" if clear else "")
    # Convert only if needed: a copy of a large image costs memory.
    full = np.asarray(image if image.mode == mode else image.convert(mode))
    about = _about(image, gray)
    if not clear:
        return Picture(full, about=about)
    return Picture(full[..., 0] if gray else full[..., :3], full[..., -1], about)


def _deep_picture(image: Any, path: Path, bits: int) -> Picture:
    """16 bits per sample."""
    from PIL import Image

    turn = _TURNS[_orientation(image)]
    about = _about(image, gray=image.mode.startswith("I"))
    if image.format == "PNG":
        from twinnet.lut.png_deep import read_deep_png

        full = turn(read_deep_png(path))
    elif bits == 16 and image.mode in ("I;16", "I;16B", "I;16L") and isinstance(image, Image.Image):
        full = turn(np.asarray(image).astype(np.uint16)[..., None])
    else:
        raise UsageError(
            f"{path} has {bits} bits per sample in a form that cannot be read here",
            hint="16 bits are read from PNG and from gray TIFF; save it as one of them",
        )
    colours = 1 if full.shape[2] < 3 else 3
    pixels = full[..., 0] if colours == 1 else full[..., :3]
    return Picture(pixels, full[..., -1] if full.shape[2] > colours else None, about)


_TURNS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a.swapaxes(0, 1)[:, ::-1],
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a.swapaxes(0, 1)[::-1],
}
"""How a picture is turned upright, by the number in its EXIF data."""


def _orientation(image: Any) -> int:
    found = image.getexif().get(_ORIENTATION, 1)
    return found if found in _TURNS else 1


def _about(image: Any, gray: bool) -> About:
    info = image.info
    icc = info.get("icc_profile")
    # A profile of another colour space (CMYK, a palette's) says nothing about the planes we have.
    if not isinstance(icc, bytes) or icc[16:20] != (b"GRAY" if gray else b"RGB "):
        icc = None
    dpi = info.get("dpi")
    # Pillow says 1 dpi of a TIFF that states no resolution.
    if not (isinstance(dpi, tuple) and len(dpi) == 2 and all(1 < float(d) < 1e6 for d in dpi)):
        dpi = None
    return About(icc, None if dpi is None else (float(dpi[0]), float(dpi[1])), _exif(image))


def _exif(image: Any) -> Any:
    """What is kept of EXIF data; None if there are none, or if they are damaged, which does not harm the picture."""
    from PIL import Image

    try:
        with foreign_as(lambda error: UsageError(f"damaged EXIF data: {error}")):
            given, found = image.getexif(), Image.Exif()
            for tag in _TAGS:
                if tag in given:
                    found[tag] = given[tag]
            for ifd in _IFDS:
                inner = given.get_ifd(ifd)
                if inner:
                    found.get_ifd(ifd).update(inner)
            return found if found.tobytes() != Image.Exif().tobytes() else None
    except UsageError:
        return None


def pictures(source: str | Path) -> Iterator[np.ndarray]:
    """The pixels of an image, or of all images of a folder."""
    path = Path(source)
    files = [p for p in sorted(path.iterdir()) if is_picture(p)] if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path} holds no images")
    for file in files:
        yield read_picture(file).pixels
