"""Videos, frame by frame, through PyAV."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import MissingExtra, UsageError
from twinnet.files import whole_file
from twinnet.lut.model import LutModel

__all__ = ["upscale_video"]

_MUXERS = {".mkv": "matroska", ".mov": "mov", ".avi": "avi", ".webm": "webm"}


def _pyav() -> Any:
    try:
        return import_module("av")
    except ImportError as error:
        raise MissingExtra("PyAV, which reads videos,", "video") from error


def upscale_video(
    model: LutModel, source: Path, target: Path, progress: Callable[[float], None] | None = None
) -> None:
    """Run every frame of the first video stream; sound is not carried over."""
    av = _pyav()
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the input itself", hint="choose another output")
    kind = _MUXERS.get(target.suffix.lower(), "mp4")
    try:
        with whole_file(target) as file, av.open(str(source)) as reader, av.open(file, "w", kind) as writer:
            if not reader.streams.video:
                raise UsageError(f"{source} has no video stream")
            _frames(model, reader, writer, progress)
    except (av.FFmpegError, ValueError) as error:
        raise UsageError(f"cannot run {source}: {error}") from error


def _frames(model: LutModel, reader: Any, writer: Any, progress: Callable[[float], None] | None) -> None:
    av = _pyav()
    stream = reader.streams.video[0]
    out = None
    for number, frame in enumerate(reader.decode(stream)):
        image = model(frame.to_ndarray(format="rgb24"))
        if out is None:
            out = writer.add_stream("libx264", rate=stream.average_rate or 25, options={"crf": "12"})
            # The encoder wants even sides; the last row or column is repeated if need be.
            out.width, out.height = (side + side % 2 for side in (image.shape[1], image.shape[0]))
            out.pix_fmt = "yuv420p"
        pad = (out.height - image.shape[0], out.width - image.shape[1])
        padded = np.pad(image, ((0, pad[0]), (0, pad[1]), (0, 0)), mode="edge")
        writer.mux(out.encode(av.VideoFrame.from_ndarray(padded, format="rgb24")))
        if progress is not None and stream.frames:
            progress(min((number + 1) / stream.frames, 1.0))
    if out is None:
        raise UsageError("the video has no frames")
    writer.mux(out.encode())
