"""Frames of a video or of a folder of images, as UVQ takes them: 1080p, RGB, upright."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.extras import optional_package
from twinnet.inputs.images import is_image_name, read_image

__all__ = ["HEIGHT", "WIDTH", "Frame", "count_frames", "read_frames"]

WIDTH, HEIGHT = 1920, 1080
_LONGEST = 600.0
"""Seconds that a frame may last: they are filled with copies of it."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame: what it is called ("3 s", or a file's name) and its pixels, uint8 [1080, 1920, 3]."""

    name: str
    pixels: np.ndarray


def read_frames(source: Path, *, fps: float = 1.0) -> Iterator[Frame]:
    """The frames of a video, `fps` for each second, or the images of a folder in the order of their names.

    Frames are resized to 1920x1080 without regard to their aspect, and portrait ones turned to the left first.
    """
    if source.is_dir() or is_image_name(source):
        for path in _images(source):
            yield Frame(path.name, _image(path))
    elif source.is_file():
        yield from _video(source, fps)
    else:
        raise _absent(source)


def count_frames(source: Path, *, fps: float = 1.0) -> int | None:
    """How many frames there will be, as far as the file says."""
    if source.is_dir() or is_image_name(source):
        return len(_images(source))
    if not source.exists():
        raise _absent(source)
    av = optional_package("av")
    try:
        with av.open(str(source)) as reader:
            return max(1, round(reader.duration / av.time_base * fps)) if reader.duration else None
    except (av.FFmpegError, ValueError) as error:
        raise _unreadable(source, error) from error


def _absent(source: Path) -> UsageError:
    return UsageError(f"no such video or folder: {source}")


def _unreadable(source: Path, error: Exception) -> UsageError:
    """FFmpeg's own words, without its numbers and the name that the message has already."""
    return UsageError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}")


def _images(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    found = sorted(p for p in source.iterdir() if p.is_file() and is_image_name(p))
    if not found:
        raise UsageError(f"no images in {source}")
    return found


def _image(path: Path) -> np.ndarray:
    from PIL import Image

    pixels = Image.fromarray(np.rint(read_image(path) * 255.0).astype(np.uint8))
    if pixels.height > pixels.width:
        pixels = pixels.transpose(Image.Transpose.ROTATE_90)
    return np.asarray(pixels.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


def _video(source: Path, fps: float) -> Iterator[Frame]:
    av = optional_package("av")
    try:
        with av.open(str(source)) as reader:
            if not reader.streams.video:
                raise UsageError(f"{source} has no video stream")
            if reader.streams.video[0].codec_context is None:
                raise UsageError(f"{source} is in a format that FFmpeg does not know")
            yield from _filtered(av, reader, reader.streams.video[0], fps)
    except (av.FFmpegError, ValueError) as error:
        raise _unreadable(source, error) from error


def _filtered(av: Any, reader: Any, stream: Any, fps: float) -> Iterator[Frame]:
    """Through the filters of FFmpeg that UVQ itself uses."""
    graph = _graph(av, stream, fps)
    number, before, first = 0, None, None
    endless = UsageError(f"the video is damaged: one frame of it lasts more than {_LONGEST:g} s")

    def pulled() -> Iterator[Frame]:
        nonlocal number
        most = number + _LONGEST * fps + 1
        while True:
            if number > most:
                raise endless
            try:
                frame = graph.vpull()
            except (av.BlockingIOError, av.EOFError):
                return
            yield Frame(f"{number / fps:g} s", frame.to_ndarray(format="rgb24"))
            number += 1

    for frame in reader.decode(stream):
        # The filter would fill the time between two frames with copies: said before they are made.
        if before is not None and frame.time is not None and frame.time - before > _LONGEST:
            raise endless
        before = frame.time
        first = first or frame
        graph.vpush(frame)
        yield from pulled()
    graph.vpush(None)
    yield from pulled()
    if not number and first is not None:  # a video of less than half a period has no frame for the filter
        graph = _graph(av, stream, None)
        graph.vpush(first)
        yield from pulled()


def _graph(av: Any, stream: Any, fps: float | None) -> Any:
    """Filters from decoded frames to upright ones of 1080p, `fps` of each second, or all."""
    graph = av.filter.Graph()
    filters = [("fps", f"{fps:g}")] if fps is not None else []
    if stream.codec_context.height > stream.codec_context.width:
        filters.append(("transpose", "2"))
    filters += [("scale", f"{WIDTH}:{HEIGHT}:flags=bicubic"), ("format", "rgb24"), ("buffersink", "")]
    start = graph.add_buffer(template=stream)
    graph.link_nodes(start, *(graph.add(name, words or None) for name, words in filters)).configure()
    return graph
