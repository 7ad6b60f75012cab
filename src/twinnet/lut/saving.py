"""Image files out: a picture run through tables and written with everything its file said about it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError, foreign_as
from twinnet.files import whole_file
from twinnet.lut.deep import deep_strips, enlarged
from twinnet.lut.model import LutModel
from twinnet.lut.pictures import About, Picture, read_picture
from twinnet.lut.png import FAST, Chunk, icc_chunk, write_png

__all__ = ["Saving", "check_target", "upscale_file"]

_QUALITY = 95
_LOSSY = ("JPEG", "WEBP", "AVIF")


@dataclass(frozen=True)
class _Format:
    """What a file format can hold."""

    side: int = (1 << 31) - 1
    """Most pixels in a row or a column."""
    clear: bool = True
    """Whether it holds transparency."""


_FORMATS = {
    "PNG": _Format(),
    "JPEG": _Format(side=65500, clear=False),
    "WEBP": _Format(side=16383),
    "AVIF": _Format(side=65536),
    "TIFF": _Format(),
    "JPEG2000": _Format(),
    "TGA": _Format(side=65535),
    "BMP": _Format(clear=False),
    "PPM": _Format(clear=False),
}
"""What can be written, by Pillow's names. Others lose something in silence: colours (GIF), size (ICO), pixels (PDF)."""
_WIDTH, _HEIGHT = 0xA002, 0xA003
"""EXIF tags of the size of a picture."""


@dataclass(frozen=True)
class Saving:
    """How results are written."""

    overwrite: bool = False
    compress: int = FAST
    """PNG: 0 (none), 1 (fast) to 9 (small)."""
    quality: int = _QUALITY
    """JPEG, WebP, AVIF: 1 to 100."""


def check_target(source: Path, target: Path, saving: Saving) -> None:
    """Refuse a result that would replace the input, or a file that is there already."""
    if not target.exists():
        return
    if target.samefile(source):
        raise UsageError(f"{target} is the input itself", hint="choose another output")
    if not saving.overwrite:
        raise UsageError(f"{target} already exists", hint="choose another output, or add --overwrite")


def upscale_file(
    model: LutModel,
    source: Path,
    target: Path,
    progress: Callable[[float], None] | None = None,
    saving: Saving | None = None,
) -> None:
    """Run one image file and write the result; PNG goes out strip by strip, other formats in one piece."""
    saving = saving or Saving()
    check_target(source, target, saving)
    kind = _format(target)
    picture = read_picture(source, deep=True)
    if picture.alpha is not None and not _FORMATS[kind].clear:
        raise UsageError(
            f"{source} has transparency, which {target.suffix} cannot hold",
            hint="write .png or .webp, or put the picture on a background first",
        )
    rows, columns = (side * model.scale for side in picture.pixels.shape[:2])
    most = _FORMATS[kind].side
    if max(rows, columns) > most:
        raise UsageError(
            f"the result has {columns:,} x {rows:,} pixels, and {target.suffix} holds {most:,} on a side",
            hint="write .png or .tif",
        )
    channels = (1 if picture.pixels.ndim == 2 else 3) + (picture.alpha is not None)
    about = _resized(picture.about, rows, columns)
    with whole_file(target) as file:
        strips = _strips(model, picture, progress)
        if kind == "PNG":
            write_png(
                file,
                rows,
                columns,
                channels,
                strips,
                level=saving.compress,
                chunks=_chunks(about),
                deep=picture.deep,
            )
        else:
            file.write(_encoded(np.concatenate(list(strips)), target, kind, about, saving))


def _strips(
    model: LutModel, picture: Picture, progress: Callable[[float], None] | None
) -> Iterator[np.ndarray]:
    alpha = None if picture.alpha is None else _alpha(picture.alpha, model.scale)
    pixels = (
        picture.pixels if picture.alpha is None else _bled(picture.pixels, picture.alpha, model.plan.reach)
    )
    run = deep_strips(model, pixels, progress=progress) if picture.deep else None
    done = 0
    for strip in run or model.strips(pixels, progress):
        part = strip[..., None] if strip.ndim == 2 else strip
        if alpha is not None:
            part = np.concatenate([part, alpha[done : done + len(part), :, None]], axis=2)
        done += len(part)
        yield part


def _bled(pixels: np.ndarray, alpha: np.ndarray, reach: int) -> np.ndarray:
    """Colours of what can be seen carried on into what cannot, as far as tables look: else they would give it a rim of
    the colour that happens to be stored there, mostly black."""
    known = alpha > 0
    if known.all() or not known.any():
        return pixels
    colours = (pixels[..., None] if pixels.ndim == 2 else pixels).astype(np.float32)
    for _ in range(reach + 1):
        weights = np.pad(known, 1).astype(np.float32)
        spread = np.pad(colours, np.array([[1, 1], [1, 1], [0, 0]])) * weights[..., None]
        count, total = (_around(part) for part in (weights[..., None], spread))
        new = ~known & (count[..., 0] > 0)
        colours[new] = total[new] / count[new]
        known = known | new
    made = np.rint(colours).astype(pixels.dtype)
    return np.where(alpha[..., None] > 0, pixels.reshape(made.shape), made).reshape(pixels.shape)


def _around(padded: np.ndarray) -> np.ndarray:
    """The sum of the nine pixels around each."""
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]


def _alpha(alpha: np.ndarray, scale: int) -> np.ndarray:
    """Resize the alpha channel, which does not go through the network."""
    from PIL import Image

    if alpha.dtype == np.uint16:
        return np.rint(enlarged(alpha.astype(np.float32), scale)).clip(0, 65535).astype(np.uint16)
    size = (alpha.shape[1] * scale, alpha.shape[0] * scale)
    return np.asarray(Image.fromarray(alpha).resize(size, Image.Resampling.BICUBIC))


def _encoded(pixels: np.ndarray, target: Path, kind: str, about: About, saving: Saving) -> bytes:
    """The file in any format but PNG, by Pillow."""
    from PIL import Image

    pixels = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    if pixels.dtype == np.uint16 and not (kind == "TIFF" and pixels.ndim == 2):
        pixels = np.rint(pixels / 257).astype(np.uint8)
    words: dict[str, Any] = {}
    if kind in _LOSSY:
        words["quality"] = saving.quality
    if kind == "JPEG":
        words["subsampling"] = 0  # colours as sharp as luma: the tables have just made them so
    if about.icc is not None:
        words["icc_profile"] = about.icc
    if about.dpi is not None:
        words["dpi"] = about.dpi
    if about.exif is not None:
        words["exif"] = about.exif.tobytes()
    file = BytesIO()
    with foreign_as(lambda error: UsageError(f"cannot write {target}: {error}", hint="write .png")):
        Image.fromarray(pixels).save(file, kind, **words)
    return file.getvalue()


def _chunks(about: About) -> list[Chunk]:
    """What is known about a picture, as chunks of a PNG."""
    found: list[Chunk] = []
    if about.icc is not None:
        found.append(icc_chunk(about.icc))
    if about.dpi is not None:
        per_metre = [round(d / 0.0254) for d in about.dpi]
        found.append((b"pHYs", struct.pack(">IIB", *per_metre, 1)))
    if about.exif is not None:
        found.append((b"eXIf", about.exif.tobytes().removeprefix(b"Exif\0\0")))
    return found


def _resized(about: About, rows: int, columns: int) -> About:
    """EXIF data that state the size of the picture state the new one."""
    if about.exif is not None:
        inner = about.exif.get_ifd(0x8769)
        for tag, side in ((_WIDTH, columns), (_HEIGHT, rows)):
            if tag in inner:
                inner[tag] = side
    return about


def _format(target: Path) -> str:
    from PIL import Image

    Image.init()
    kind = Image.EXTENSION.get(target.suffix.lower())
    if kind not in _FORMATS or kind not in Image.SAVE:
        known = ".png, .jpg, .webp, .avif, .tif, .jp2, .tga, .bmp or .ppm"
        raise UsageError(
            f"cannot write images of type {target.suffix or '(no suffix)'}: {target}", hint=f"use {known}"
        )
    return kind
