"""From frames to scores: patches, features of content and distortion, and the mean opinion score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from twinnet.errors import UsageError
from twinnet.zoo.uvq.frames import HEIGHT, WIDTH, read_frames
from twinnet.zoo.uvq.nets import AggregationNet, ContentNet, DistortionNet
from twinnet.zoo.uvq.weights import load_weights

__all__ = ["FrameScore", "Uvq", "joined", "load_uvq", "patches", "to_input"]

_PARTS = {"content": ContentNet, "distortion": DistortionNet, "aggregation": AggregationNet}
_SUFFIXES = (".pth", ".safetensors", ".tflite")


@dataclass(frozen=True, slots=True)
class FrameScore:
    """The mean opinion score of one frame, between 1 and 5."""

    frame: str
    score: float


@dataclass(frozen=True)
class Uvq:
    """The three networks together. `batch` patches of a frame go through DistortionNet at once, 9 at most."""

    content: ContentNet
    distortion: DistortionNet
    aggregation: AggregationNet
    batch: int = 1

    @torch.inference_mode()
    def score(self, pixels: np.ndarray) -> float:
        """The score of one frame, uint8 [1080, 1920, 3]."""
        frame = to_input(pixels)
        small = nn.functional.interpolate(
            frame, size=ContentNet.size, mode="bilinear", align_corners=False, antialias=False
        )
        cut = patches(frame)
        parts = [self.distortion(part) for part in cut.split(self.batch)]
        return float(self.aggregation(self.content(small), joined(torch.cat(parts))))

    def scores(self, source: str | Path, *, fps: float = 1.0) -> Iterator[FrameScore]:
        """The score of each frame of a video or folder, one by one. The score of a video is their mean."""
        for frame in read_frames(Path(source), fps=fps):
            yield FrameScore(frame.name, self.score(frame.pixels))


def to_input(pixels: np.ndarray) -> Tensor:
    """A frame as the networks take it: [1, 3, height, width] in [-1, 1].

    >>> to_input(np.full((2, 2, 3), 255, np.uint8)).max()
    tensor(1.)
    """
    frame = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)[None]
    return (frame.to(torch.float32) / 255.0 - 0.5) * 2.0


def patches(frames: Tensor) -> Tensor:
    """Cut frames of 1080p into 3x3 patches, row by row: [n, 3, 1080, 1920] to [9 n, 3, 360, 640]."""
    if tuple(frames.shape[1:]) != (3, HEIGHT, WIDTH):
        raise UsageError(f"a frame has the shape {tuple(frames.shape[1:])}, not 3x{HEIGHT}x{WIDTH}")
    height, width = DistortionNet.patch
    cut = frames.reshape(len(frames), 3, 3, height, 3, width).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(-1, 3, height, width)


def joined(features: Tensor) -> Tensor:
    """Put the features of 3x3 patches together again: [9 n, 8, 8, 128] to [n, 24, 24, 128]."""
    rows, columns, channels = features.shape[1:]
    put = features.reshape(-1, 3, 3, rows, columns, channels).permute(0, 1, 3, 2, 4, 5)
    return put.reshape(-1, 3 * rows, 3 * columns, channels)


def load_uvq(weights: str | Path, *, batch: int = 1) -> Uvq:
    """The networks with the weights in a folder: content_net, distortion_net and aggregation_net.

    Each is a .pth file as published, a .safetensors file with the same names, or a .tflite file.
    """
    folder = Path(weights)
    if not folder.is_dir():
        raise UsageError(f"no such folder of weights: {folder}")
    files = {part: _file(folder, part) for part in _PARTS}
    missing = [f"{part}_net.pth" for part, file in files.items() if file is None]
    if missing:
        raise UsageError(
            f"{folder} lacks {', '.join(missing)}",
            hint="the weights are published at github.com/google/uvq, in uvq1p5_pytorch/checkpoints; "
            ".safetensors and float .tflite files are read too",
        )
    nets = {}
    for part, file in files.items():
        nets[part] = _PARTS[part]().eval()
        load_weights(nets[part], str(file))
    return Uvq(**nets, batch=batch)


def _file(folder: Path, part: str) -> Path | None:
    found = (folder / f"{part}_net{suffix}" for suffix in _SUFFIXES)
    return next((file for file in found if file.is_file()), None)
