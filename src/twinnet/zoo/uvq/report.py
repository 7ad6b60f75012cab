"""A video's scores, with the time and memory they took."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.progress import Report, silent
from twinnet.report.figures import count
from twinnet.zoo.uvq.frames import count_frames
from twinnet.zoo.uvq.score import FrameScore, load_uvq

__all__ = ["VideoScore", "score_video"]


@dataclass(frozen=True)
class VideoScore:
    """The scores of a video. `peak_memory` is the most that the process has held so far, in bytes."""

    video: str
    frames: tuple[FrameScore, ...]
    seconds: float
    peak_memory: int

    @property
    def mean(self) -> float:
        """The score of the whole video."""
        return sum(f.score for f in self.frames) / len(self.frames)

    def to_json(self) -> str:
        """Machine-readable form."""
        return json.dumps({**asdict(self), "mean": self.mean}, indent=1)

    def table(self) -> str:
        """The scores as lines of text."""
        width = max(len("mean"), *(len(f.frame) for f in self.frames))
        rows = [f"{f.frame:<{width}}  {f.score:.6f}" for f in self.frames]
        each = self.seconds / len(self.frames)
        return "\n".join(
            (
                *rows,
                f"{'mean':<{width}}  {self.mean:.6f}",
                "",
                f"{count(len(self.frames), 'frame')}, {each:.1f} s each, peak memory {self.peak_memory / 1e6:.0f} MB",
            )
        )


def score_video(
    video: Path, weights: Path, *, fps: float = 1.0, batch: int = 1, progress: Report = silent
) -> VideoScore:
    """Score the frames of a video or of a folder of images."""
    from twinnet.memory import peak_memory

    total = count_frames(video, fps=fps)
    progress("reading the weights", None)
    uvq = load_uvq(weights, batch=batch)
    start = time.perf_counter()
    found: list[FrameScore] = []
    for one in uvq.scores(video, fps=fps):
        found.append(one)
        step = f"{one.frame}: {one.score:.3f}"
        progress(step, None if total is None else min(len(found) / total, 1.0))
    if not found:
        raise UsageError(f"{video} has no frames")
    return VideoScore(str(video), tuple(found), time.perf_counter() - start, peak_memory())
