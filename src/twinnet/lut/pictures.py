"""Image files in and out: what Pillow reads, as 8-bit planes; PNG written in strips."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError, foreign_as
from twinnet.files import check_picture_size, whole_file
from twinnet.lut.model import LutModel
from twinnet.lut.png import write_png

__all__ = ["SUFFIXES", "Picture", "is_picture", "read_picture", "upscale_file"]

SUFFIXES = frozenset(
    [
        ".png",
        ".jpg",
        ".jpeg",
        ".bmp",
        ".webp",
        ".tif",
        ".tiff",
        ".gif",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
        ".jp2",
        ".tga",
        ".avif",
        ".ico",
    ]
)
_MAX_PIXELS = 1 << 30


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as the networks take it: uint8 [rows, columns] or [rows, columns, 3], and its alpha, if
    any."""

    pixels: np.ndarray
    alpha: np.ndarray | None = None


def is_picture(path: Path) -> bool:
    """Whether the name looks like an image file that is meant to be seen."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _depth(image: Any, path: Path) -> int:
    """Bits per sample in the file, which Pillow sometimes hides by dropping the low byte."""
    if image.format == "PNG":
        with path.open("rb") as file:
            return file.read(25)[24]
    if image.format == "TIFF":
        bits = image.tag_v2.get(258, 8)
        return max(bits) if isinstance(bits, tuple) else int(bits)
    return 16 if image.mode.startswith(("I", "F")) else 8


def read_picture(path: str | Path) -> Picture:
    """Read an image. Palettes and other colour spaces become RGB; alpha is kept apart; over 8 bits is
    refused."""
    from PIL import Image, ImageOps

    source = Path(path)
    if not source.is_file():
        raise UsageError(f"no such file: {source}")

    def unreadable(error: BaseException) -> UsageError:
        said = "truncated" if isinstance(error, IndexError) else f"not a readable image: {error}"
        return UsageError(f"{source} is {said}")

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, _MAX_PIXELS
    try:
        # A damaged image can fail in any way.
        with foreign_as(unreadable), warnings.catch_warnings(), Image.open(source) as image:
            warnings.simplefilter("ignore")
            check_picture_size(source, *image.size)
            if _depth(image, source) > 8:
                raise UsageError(
                    f"{source} has more than 8 bits per sample, and table networks index 8-bit pixels",
                    hint="convert it to 8 bits first, choosing yourself how to scale its range",
                )
            if getattr(image, "n_frames", 1) > 1:
                raise UsageError(f"{source} is animated", hint="extract its frames first")
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
    if not clear:
        return Picture(full)
    return Picture(full[..., 0] if gray else full[..., :3], full[..., -1])


def _alpha(alpha: np.ndarray, scale: int) -> np.ndarray:
    """Resize the alpha channel, which does not go through the network."""
    from PIL import Image

    size = (alpha.shape[1] * scale, alpha.shape[0] * scale)
    return np.asarray(Image.fromarray(alpha).resize(size, Image.Resampling.BICUBIC))


def _strips(
    model: LutModel, picture: Picture, progress: Callable[[float], None] | None
) -> Iterator[np.ndarray]:
    alpha = None if picture.alpha is None else _alpha(picture.alpha, model.scale)
    done = 0
    for strip in model.strips(picture.pixels, progress):
        part = strip[..., None] if strip.ndim == 2 else strip
        if alpha is not None:
            part = np.concatenate([part, alpha[done : done + len(part), :, None]], axis=2)
        done += len(part)
        yield part


def upscale_file(
    model: LutModel, source: Path, target: Path, progress: Callable[[float], None] | None = None
) -> None:
    """Run one image file and write the result; PNG goes out strip by strip, other formats in one piece."""
    from PIL import Image

    picture = read_picture(source)
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the input itself", hint="choose another output")
    rows, columns = (side * model.scale for side in picture.pixels.shape[:2])
    channels = (1 if picture.pixels.ndim == 2 else 3) + (picture.alpha is not None)
    try:
        with whole_file(target) as file:
            strips = _strips(model, picture, progress)
            if target.suffix.lower() == ".png":
                write_png(file, rows, columns, channels, strips)
            else:
                whole = np.concatenate(list(strips))
                Image.fromarray(whole[..., 0] if channels == 1 else whole).save(file, _format(target))
    except (KeyError, ValueError) as error:
        raise UsageError(f"cannot write {target}: {error}") from error


def _format(target: Path) -> str:
    from PIL import Image

    Image.init()
    kind = Image.EXTENSION.get(target.suffix.lower())
    if kind is None or kind not in Image.SAVE:
        raise UsageError(
            f"cannot write images of type {target.suffix or '(no suffix)'}: {target}", hint="use .png"
        )
    return kind
