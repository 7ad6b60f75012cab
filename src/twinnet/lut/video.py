"""Videos, frame by frame, through PyAV: the planes of the picture enlarged, everything else carried over.

Tables run on the planes of a frame as they are stored (luma and the two colour differences), so the samples keep their
matrix and range, and the result is tagged like the source. Frames keep their time stamps. Sound, subtitles, chapters
and attachments are copied without being decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.extras import optional_package
from twinnet.files import whole_file
from twinnet.lut.deep import run_deep
from twinnet.lut.model import LutModel

__all__ = ["VIDEOS", "upscale_video", "written_as"]

_MUXERS = {
    ".mp4": "mp4", ".m4v": "mp4", ".mkv": "matroska", ".mov": "mov", ".webm": "webm",
}  # fmt: skip
VIDEOS = frozenset(
    [*_MUXERS, ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".wmv", ".flv", ".3gp", ".ogv"]
)
"""Suffixes of files that are read as videos. Those that are not written become .mkv: AVI, for one, has no place for the
times of frames."""
_ENCODERS = {
    "webm": ("libvpx-vp9", {"crf": "20", "b:v": "0", "row-mt": "1"}),
    "": ("libx264", {"crf": "16", "preset": "medium"}),
}
"""By container: what writes the picture. The settings are close to what the eye can tell from the frames written."""
_TAGS = ("colorspace", "color_range", "color_primaries", "color_trc")
_COPIED = {"audio": "sound", "subtitle": "subtitles", "attachment": "an attachment", "data": "data"}
_PLANAR = frozenset(
    [f"yuv{j}{kind}p" for kind in (420, 422, 444) for j in ("", "j")]
    + [f"yuv{kind}p10le" for kind in (420, 422, 444)]
    + ["gray", "gray10le"]
)
"""Formats whose planes go through tables as they are; others become one of these."""
_FULL = 2
"""The colour range 0..255, as JPEG has it."""
_DEEPEST = 10
"""Bits per sample that are written."""
_SHORT = 1.0
"""Seconds by which a file may end before the length it states."""


def written_as(path: Path) -> str:
    """The name of a video's result.

    >>> written_as(Path("a.mov")), written_as(Path("b.mpg"))
    ('a.mov', 'b.mkv')
    """
    return path.name if path.suffix.lower() in _MUXERS else f"{path.stem}.mkv"


def upscale_video(
    model: LutModel, source: Path, target: Path, progress: Callable[[float], None] | None = None
) -> list[str]:
    """Run every frame of the first video stream and copy all other streams; returns what could not be carried over.

    The result appears under its name when it is whole.
    """
    av = optional_package("av")
    kind = _MUXERS.get(target.suffix.lower())
    if kind is None:
        raise UsageError(
            f"cannot write videos of type {target.suffix or '(no suffix)'}: {target}",
            hint=f"use {', '.join(_MUXERS)}",
        )
    with whole_file(target) as file:
        try:
            with av.open(str(source)) as reader, av.open(file, "w", kind) as writer:
                return _Video(model, reader, writer, kind).run(progress)
        except av.FFmpegError as error:
            raise UsageError(f"cannot run {source}: {error.strerror or error}") from error
        except ValueError as error:
            raise UsageError(f"cannot run {source}: {error}") from error


def _picture_stream(reader: Any) -> Any:
    """The first video stream that is not the cover of an album."""
    from av.stream import Disposition

    moving = [s for s in reader.streams.video if not s.disposition & Disposition.attached_pic]
    if not moving:
        raise UsageError(f"{reader.name} has no video stream")
    if moving[0].codec_context is None:
        raise UsageError(f"{reader.name} is in a format that FFmpeg does not know")
    return moving[0]


class _Video:
    """One video on its way from a reader to a writer."""

    def __init__(self, model: LutModel, reader: Any, writer: Any, kind: str) -> None:
        self.model, self.reader, self.writer, self.kind = model, reader, writer, kind
        self.stream = _picture_stream(reader)
        self.notes: list[str] = []
        self.out: Any = None
        """The stream of the picture; its encoder is set up when the first frame is there."""
        self.ready = False
        self.last = -1
        self.waiting: list[Any] = []
        """Packets of other streams that came before the first frame."""

    def run(self, progress: Callable[[float], None] | None) -> list[str]:
        # All streams must be there, in their order, before the first packet is written.
        copies = self._streams()
        self.stream.thread_type = "AUTO"
        number, end, share = 0, 0.0, 0.0
        start, length = (self.reader.start_time or 0) / 1e6, (self.reader.duration or 0) / 1e6
        for packet in self.reader.demux(self.stream, *copies):
            if packet.pts is not None:
                end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            if packet.stream is not self.stream:
                self._copy(packet, copies[packet.stream])
                continue
            for frame in packet.decode():
                self._write(self._frame(frame, number))
                number += 1
                if progress is not None and (self.stream.frames or length):
                    done = number / self.stream.frames if self.stream.frames else (end - start) / length
                    share = min(max(done, share), 1.0)
                    progress(share)
        if not self.ready:
            raise UsageError(f"{self.reader.name} has no frames")
        self.writer.mux(self.out.encode())
        if end - start < length - _SHORT:
            self.notes.append(
                f"the file ends after {end - start:.1f} s and states {length:.1f} s: it may be cut off"
            )
        return self.notes

    def _streams(self) -> dict[Any, Any]:
        """Make the picture's stream and those that are copied; returns each of these with its copy."""
        from twinnet.errors import foreign_as

        found = {}
        for stream in self.reader.streams:
            if stream is self.stream:
                name, options = _ENCODERS.get(self.kind, _ENCODERS[""])
                self.out = self.writer.add_stream(name, rate=stream.average_rate or 25, options=options)
                self.out.metadata.update(stream.metadata)
                continue
            if stream.type not in _COPIED:
                self.notes.append("another picture left out: only the first video stream is run")
                continue
            what = _COPIED[stream.type]
            context = None if stream.type in ("attachment", "data") else stream.codec_context
            name = "" if context is None else context.codec.canonical_name
            if name not in self.writer.supported_codecs:
                self.notes.append(
                    f"{what} left out: {name or 'this kind'} does not go into a {self.kind} file; "
                    "a name that ends in .mkv keeps it"
                )
                continue
            with foreign_as(lambda error, what=what: UsageError(f"cannot copy {what}: {error}")):
                found[stream] = self.writer.add_stream_from_template(stream)
                found[stream].metadata.update(stream.metadata)
                found[stream].disposition = stream.disposition
        return found

    def _copy(self, packet: Any, copy: Any) -> None:
        if packet.dts is None:  # marks the end of a stream
            return
        packet.stream = copy
        if not self.ready:
            self.waiting.append(packet)
        else:
            self.writer.mux(packet)

    def _write(self, frame: Any) -> None:
        self.writer.mux(self.out.encode(frame))

    def _open(self, source: Any, planes: list[np.ndarray], format_: str) -> None:
        """Set the encoder of the picture up, tagged like its source."""
        self.ready = True
        context = self.out.codec_context
        context.width, context.height = planes[0].shape[1], planes[0].shape[0]
        context.pix_fmt = format_
        context.time_base = self.stream.time_base
        if self.stream.sample_aspect_ratio:
            context.sample_aspect_ratio = self.stream.sample_aspect_ratio
        for tag in _TAGS:
            setattr(context, tag, int(getattr(source, tag)))
        self.writer.metadata.update(self.reader.metadata)
        self.writer.set_chapters(self.reader.chapters())
        for packet in self.waiting:
            self.writer.mux(packet)
        self.waiting.clear()

    def _frame(self, frame: Any, number: int) -> Any:
        """A frame enlarged, at its own time."""
        av = optional_package("av")
        quarters = round(frame.rotation / 90) % 4
        source = _planar(frame, turned=quarters % 2 == 1)
        # The result has no mark that says how to turn it: it is upright.
        planes = [np.ascontiguousarray(np.rot90(plane, quarters)) for plane in self._enlarged(source)]
        if not self.ready:
            self._lost(frame)
            self._open(source, planes, source.format.name)
        out: Any = self.out
        if (out.width, out.height) != (planes[0].shape[1], planes[0].shape[0]):
            raise UsageError(
                f"{self.reader.name} changes its frame size midway",
                hint="cut it into parts of one size first",
            )
        made = av.VideoFrame(planes[0].shape[1], planes[0].shape[0], source.format.name)
        for plane, samples in zip(made.planes, planes):
            held = np.frombuffer(plane, samples.dtype).reshape(len(samples), -1)
            np.asarray(held)[:, : samples.shape[1]] = samples
        for tag in _TAGS:
            setattr(made, tag, int(getattr(source, tag)))
        made.time_base = self.stream.time_base
        pts = frame.pts
        if pts is None:  # streams without a container have no times
            pts = round(number / (self.stream.average_rate or 25) / self.stream.time_base)
        self.last = made.pts = max(pts, self.last + 1) if self.last >= 0 else pts
        return made

    def _lost(self, frame: Any) -> None:
        """Note what a result does not have of its frames."""
        bits = frame.format.components[0].bits
        if bits > _DEEPEST:
            self.notes.append(f"{bits} bits per sample became {_DEEPEST}")
        if any(part.is_alpha for part in frame.format.components):
            self.notes.append("transparency left out")
        if frame.interlaced_frame:
            self.notes.append(
                "interlaced: tables saw both fields as one picture; separate the fields first for a clean result"
            )

    def _enlarged(self, frame: Any) -> list[np.ndarray]:
        n = self.model.scale
        bits = frame.format.components[0].bits
        found = []
        for number, plane in enumerate(frame.planes):
            kind = np.uint8 if bits == 8 else np.uint16
            samples = np.frombuffer(plane, kind).reshape(plane.height, -1)[:, : plane.width]
            samples = np.ascontiguousarray(samples)
            big = self.model(samples) if bits == 8 else run_deep(self.model, samples, (1 << bits) - 1)
            if number and n > 1 and plane.width < frame.width and _left(frame):
                big = _moved(big, (n - 1) / 4)
            found.append(big)
        return _even(found, *(_share(frame.format, axis) for axis in ("height", "width")))


def _planar(frame: Any, turned: bool = False) -> Any:
    """The frame in planes of luma and colour differences (or luma alone), which tables can run on."""
    name, parts = frame.format.name, frame.format.components
    if name in _PLANAR and not (turned and "422" in name):
        return frame
    deep = "10le" if parts[0].bits > 8 else ""
    if frame.format.is_rgb:
        made = frame.reformat(format=f"yuv444p{deep}", dst_colorspace="ITU709", dst_color_range="MPEG")
        made.colorspace = made.color_primaries = made.color_trc = 1  # BT.709
        made.color_range = 1
        return made
    gray = len(parts) == 1
    wide = "gray" if gray else "yuv444p" if parts[1].width == frame.width else "yuv420p"
    return frame.reformat(format=f"{wide}{deep}")


def _left(frame: Any) -> bool:
    """Whether colours are sampled at every other pixel, as in most video, rather than between two, as in JPEG."""
    return frame.color_range != _FULL


def _moved(plane: np.ndarray, by: float) -> np.ndarray:
    """Samples `by` (less than one) further right: where colour samples belong beside enlarged luma."""
    right = np.concatenate([plane[:, 1:], plane[:, -1:]], axis=1)
    exact = plane * (1 - by) + right * by
    return np.rint(exact).astype(plane.dtype)


def _share(format_: Any, axis: str) -> int:
    """How many luma samples share one of colour along an axis."""
    parts = format_.components
    whole = 16
    own = format_.chroma_width(whole) if axis == "width" else format_.chroma_height(whole)
    return whole // own if len(parts) > 1 else 1


def _even(planes: list[np.ndarray], down: int, across: int) -> list[np.ndarray]:
    """Planes of sides that the encoder takes: luma a multiple of the colours' share, the last samples repeated."""
    rows, columns = (side + -side % share for side, share in zip(planes[0].shape, (down, across)))
    found = []
    for number, plane in enumerate(planes):
        high, wide = (rows, columns) if number == 0 else (rows // down, columns // across)
        below, beside = max(0, high - plane.shape[0]), max(0, wide - plane.shape[1])
        found.append(np.pad(plane, np.array([[0, below], [0, beside]]), mode="edge")[:high, :wide])
    return found
