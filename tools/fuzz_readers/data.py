"""Files of numbers: arrays, pictures, videos, recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.fuzz_readers.reader import Reader, small_net

__all__ = ["DATA", "above"]


def _make_npz(folder: Path) -> None:
    import numpy as np

    np.savez(folder / "x.npz", x=np.arange(60.0).reshape(3, 4, 5), y=np.ones((2, 2), np.int8))
    np.savez_compressed(folder / "z.npz", x=np.arange(60.0).reshape(3, 4, 5))


def _make_npy(folder: Path) -> None:
    import numpy as np

    np.save(folder / "x.npy", np.arange(60, dtype=np.int8).reshape(3, 4, 5))


def _make_image(folder: Path) -> None:
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    for name in ("x.png", "x.jpg", "x.bmp", "x.tif", "x.webp", "x.gif"):
        Image.fromarray(pixels).save(folder / name)


def _make_recording(folder: Path) -> None:
    import twinnet

    net, x = small_net()
    twinnet.record(net, x, out=folder / "recording")


def _read_npz(path: Path) -> None:
    from twinnet.store import read_npz

    read_npz(path)


def _read_npy(path: Path) -> None:
    from twinnet.lut.npy import read_array

    read_array(path)


def _read_image(path: Path) -> None:
    from twinnet.lut.pictures import read_picture

    read_picture(path)


def _read_recording(path: Path) -> None:
    from twinnet.recording import load_recording

    recording = load_recording(above(path, "recording"))
    for number in range(len(recording.samples)):
        recording.sample(number)
        trace = recording.trace(number)
        for name in trace:
            trace[name]


def above(path: Path, name: str) -> Path:
    """The folder of that name that a file lies in."""
    return next(p for p in (path, *path.parents) if p.name == name)


def _make_video(folder: Path) -> None:
    import av
    import numpy as np

    draw = np.random.default_rng(0)
    for name, codec in (("x.mp4", "mpeg4"), ("x.mkv", "ffv1")):
        with av.open(str(folder / name), "w") as file:
            stream: Any = file.add_stream(codec, rate=4)
            stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
            for _ in range(4):
                frame = av.VideoFrame.from_ndarray(
                    draw.integers(0, 256, (24, 32, 3), np.uint8), format="rgb24"
                )
                file.mux(stream.encode(frame))
            file.mux(stream.encode())


def _read_video(path: Path) -> None:
    from twinnet.zoo.uvq.frames import read_frames

    for _ in read_frames(path):
        pass


DATA: dict[str, Reader] = {
    "npz": Reader(_make_npz, _read_npz, "*.npz"),
    "npy": Reader(_make_npy, _read_npy, "*.npy"),
    "picture": Reader(_make_image, _read_image, "x.*"),
    "video": Reader(_make_video, _read_video, "x.*"),
    "recording": Reader(_make_recording, _read_recording, "recording/**/*"),
}
