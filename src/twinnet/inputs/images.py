"""Read pictures as inputs: decoded, upright, in the network's size, channels, range and layout."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from twinnet.errors import UsageError
from twinnet.files import check_picture_size
from twinnet.inputs.filters import OWN_FILTER, ways_to_resize
from twinnet.inputs.layout import Layout, image_layout
from twinnet.signature import TensorSpec, dims
from twinnet.store import numpy_dtype

__all__ = ["ImageSource", "is_image_name", "read_image"]

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# Exceptions that Pillow raises for damaged files, depending on format and damage.
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, struct.error, zlib.error)
_BROKEN += (EOFError, OverflowError, MemoryError, Image.DecompressionBombError)
_COLOURS = {1: "gray", 3: "RGB", 4: "RGBA"}


def is_image_name(path: Path) -> bool:
    """Whether the file's ending is that of a picture.

    >>> is_image_name(Path("a.JPG")), is_image_name(Path("a.txt"))
    (True, False)
    """
    return path.suffix.lower() in Image.registered_extensions() and path.suffix.lower() not in (
        ".pdf",
        ".eps",
        ".ps",
    )


def read_image(
    path: Path,
    channels: int = 3,
    size: tuple[int, int] | None = None,
    resample: Image.Resampling = OWN_FILTER,
) -> np.ndarray:
    """The picture as height x width x channels, float32 in [0, 1]; `size` is (height, width)."""
    with _opened(path) as image:
        try:
            image.load()
            upright = ImageOps.exif_transpose(image)
        except _BROKEN as error:
            raise UsageError(f"{path} cannot be read as an image: {error}") from error
        pixels, top = _pixels(upright, channels, size, path, resample)
    array = np.asarray(pixels, np.float32)
    array = array[..., None] if array.ndim == 2 else array
    if array.shape[-1] != channels:  # a deep gray picture for a colour network
        array = np.concatenate([array] * 3 + [np.full_like(array, top)] * (channels - 3), axis=-1)
    return np.clip(array / np.float32(top), 0.0, 1.0)


@dataclass
class ImageSource:
    """Pictures for one input, read on access, with the default preprocessing."""

    paths: Sequence[Path]
    spec: TensorSpec
    label: str
    named: bool = False
    constant = False

    def __post_init__(self) -> None:
        self.layout = self._layout()
        self.sizes = [_size(path) for path in self.paths]
        self.height, self.width = self._plane()
        self.per_sample = self._batch()

    def _layout(self) -> Layout:
        spec = self.spec
        if spec.shape is None:
            spec = TensorSpec(spec.name, spec.dtype, ("?", 3, "?", "?"))
        layout = image_layout(spec)
        takes = spec.dtype in ("float16", "float32", "float64", "bfloat16", "uint8")
        if layout is None or not takes:
            raise UsageError(
                f"images were given, but input {spec.name} ({spec.dtype} {dims(spec.shape)}) "
                "does not take pictures",
                hint="--preprocess file.py:fn makes the array from an image's path",
            )
        return layout

    @property
    def channels(self) -> int:
        dim = 3 if self.spec.shape is None else self.spec.shape[self.layout.channel]
        return dim if isinstance(dim, int) else 3

    def _plane(self) -> tuple[int, int]:
        """Height and width: the network's where it fixes them, else those of the pictures, if they agree."""
        open_axes = [
            i
            for i, axis in enumerate(self.layout.plane)
            if self.spec.shape is None or not isinstance(self.spec.shape[axis], int)
        ]
        found = [0, 0]
        for i, axis in enumerate(self.layout.plane):
            if i in open_axes:
                values = {size[i] for size in self.sizes}
                if len(values) > 1:
                    raise self._mixed(axis)
                found[i] = values.pop()
            else:
                found[i] = int(self.spec.shape[axis])  # type: ignore[index]
        return found[0], found[1]

    def _mixed(self, axis: int) -> UsageError:
        seen: dict[tuple[int, int], Path] = {}
        for path, size in zip(self.paths, self.sizes):
            seen.setdefault(size, path)
        shown = [f"{w}x{h} ({path.name})" for (h, w), path in list(seen.items())[:3]]
        height, width = self.sizes[0]
        shape: list[Any] = [1] * (4 if self.spec.shape is None else len(self.spec.shape))
        shape[self.layout.channel] = self.channels
        shape[self.layout.plane[0]], shape[self.layout.plane[1]] = height, width
        name = self.spec.shape[axis] if self.spec.shape else "?"
        return UsageError(
            f"the images in {self.label} have {len(seen)} different sizes, {', '.join(shown)}, "
            f"and dimension {axis} ({name}) of input {self.spec.name} is dynamic",
            hint=f"state the size they are resized to: --shape {self.spec.name}={dims(shape)}",
        )

    def _batch(self) -> int:
        if self.layout.batch is None or self.spec.shape is None:
            return 1
        batch = self.spec.shape[self.layout.batch]
        return batch if isinstance(batch, int) and batch > 0 else 1

    def __len__(self) -> int:
        return -(-len(self.paths) // self.per_sample)

    def where(self, index: int) -> str:
        return str(self.paths[index * self.per_sample])

    def get(self, index: int) -> dict[str, Any]:
        size = (self.height, self.width)
        return self._arranged([read_image(path, self.channels, size) for path in self._picked(index)])

    def resized(self, index: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        """The sample with its picture resized in other ways, each with a description; none if it is not resized."""
        size = (self.height, self.width)
        (path, *more) = self._picked(index)
        if more or self.sizes[self.paths.index(path)] == size:
            return

        def picture(resample: Image.Resampling | None) -> np.ndarray:
            if resample is None:
                return read_image(path, self.channels)
            return read_image(path, self.channels, size, resample)

        for words, values in ways_to_resize(picture, size):
            yield words, self._arranged([values])

    def _picked(self, index: int) -> list[Path]:
        first = index * self.per_sample
        return [self.paths[(first + i) % len(self.paths)] for i in range(self.per_sample)]

    def _arranged(self, pictures: Sequence[np.ndarray]) -> dict[str, Any]:
        """Arrange pictures in the network's layout and dtype."""
        dtype = numpy_dtype(self.spec.dtype)
        stacked = np.stack(pictures)
        values = np.rint(stacked * 255) if dtype == np.uint8 else stacked
        if self.layout.name in ("NCHW", "CHW"):
            values = np.moveaxis(values, -1, 1)
        if self.layout.batch is None:
            values = values[0]
        return {self.spec.name: np.ascontiguousarray(values.astype(dtype))}

    @cached_property
    def preprocessing(self) -> str:
        """How the pictures were preprocessed, as printed."""
        resized = any(size != (self.height, self.width) for size in self.sizes)
        stretched = any(h * self.width != w * self.height for h, w in self.sizes)
        how = f"resized to {self.width}x{self.height} (bicubic" + (", aspect not kept)" if stretched else ")")
        parts = [_COLOURS[self.channels], how if resized else "not resized", self.range, self.layout.name]
        return ", ".join(parts)

    @property
    def range(self) -> str:
        return "0..255" if self.spec.dtype == "uint8" else "[0,1]"

    def describe(self, shape: str) -> str:
        """The description in the first lines of the report."""
        many = "image" if len(self.paths) == 1 else "images"
        return f"{len(self.paths)} real {many}, {_COLOURS[self.channels]} {self.range} {shape}"


def _opened(path: Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
        check_picture_size(path, *image.size)
        return image
    except UnidentifiedImageError as error:
        known = is_image_name(path)
        hint = (
            "is the file complete?"
            if known
            else "inputs are images, .npy, .npz, .safetensors or file.py:samples"
        )
        raise UsageError(f"{path} cannot be read as an image", hint=hint) from error
    except _BROKEN as error:
        raise UsageError(f"{path} cannot be read as an image: {error}") from error


def _size(path: Path) -> tuple[int, int]:
    """(height, width) when upright; for most formats from the header alone."""
    with _opened(path) as image:
        width, height = image.size
        try:
            sideways = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        except _BROKEN as error:
            raise UsageError(f"{path} cannot be read as an image: {error}") from error
    return (width, height) if sideways else (height, width)


def _pixels(
    image: Image.Image,
    channels: int,
    size: tuple[int, int] | None,
    path: Path,
    resample: Image.Resampling,
) -> tuple[Image.Image, float]:
    """The picture in the wanted mode and size, and the value that stands for full brightness."""
    top = 255.0
    if image.mode.startswith("I;16"):
        image, top = Image.fromarray(np.asarray(image, np.float32)), 65535.0
    elif image.mode in ("I", "F"):
        raise UsageError(
            f"{path} has pixels of type {image.mode!r} (32 bits), whose range is unknown",
            hint="save it with 8 or 16 bits, or as .npy with the values the network takes",
        )
    elif channels == 4:
        image = image.convert("RGBA")
    else:
        if image.has_transparency_data:
            # Colours of transparent pixels are arbitrary; blend with white, as browsers do.
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
        image = image.convert(_MODES[channels])
    if size is not None and (image.height, image.width) != size:
        image = image.resize((size[1], size[0]), resample)
    return image, top
