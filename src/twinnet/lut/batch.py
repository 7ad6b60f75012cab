"""Running a table network over an image, a folder or a video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinnet.errors import TwinnetError, UsageError
from twinnet.files import sweep
from twinnet.lut.model import LutModel
from twinnet.lut.pictures import is_picture, read_picture, upscale_file
from twinnet.progress import progress

__all__ = ["VIDEOS", "Outcome", "jobs", "pictures", "run_files", "run_with_bar"]

VIDEOS = frozenset([".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v"])

Progress = Callable[[str, float], None]
"""Called with a file name and the share of all work done."""


@dataclass
class Outcome:
    """What was written, and what could not be read."""

    written: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)


def jobs(source: Path, target: Path) -> list[tuple[Path, Path]]:
    """Input files and where their results go.

    Results keep the input's name. Images become PNG unless one image goes to a file name with another
    suffix; where that would make two names equal, the old suffix stays in them (`a.jpg.png`).
    """
    if source.is_dir():
        files = [
            p
            for p in sorted(source.iterdir())
            if p.is_file() and not p.name.startswith(".") and (is_picture(p) or p.suffix.lower() in VIDEOS)
        ]
        if not files:
            raise UsageError(
                f"{source} holds no images", hint="folders are not searched below their first level"
            )
        if target.exists() and not target.is_dir():
            raise UsageError(f"{target} is a file, but {source} is a folder")
    elif source.is_file():
        files = [source]
        if not target.is_dir() and target.suffix:
            return [(source, target)]
    else:
        raise UsageError(f"no such file or folder: {source}")
    stems = Counter(p.stem for p in files)
    pairs = []
    for path in files:
        kept = path.name if stems[path.stem] > 1 and path.suffix.lower() != ".png" else path.stem
        pairs.append((path, target / (path.name if path.suffix.lower() in VIDEOS else f"{kept}.png")))
    return pairs


def run_files(
    model: LutModel, source: str | Path, target: str | Path, progress: Progress | None = None
) -> Outcome:
    """Run every file of `source` into `target`. In a folder, a damaged file does not stop the others."""
    pairs = jobs(Path(source), Path(target))
    for folder in {result.parent for _, result in pairs}:
        sweep(folder)
    outcome = Outcome()
    for number, (path, result) in enumerate(pairs):

        def step(share: float, path: Path = path, number: int = number) -> None:
            if progress is not None:
                progress(path.name, (number + share) / len(pairs))

        try:
            if path.suffix.lower() in VIDEOS:
                from twinnet.lut.video import upscale_video

                upscale_video(model, path, result, step)
            else:
                upscale_file(model, path, result, step)
        except TwinnetError as error:
            if len(pairs) == 1:
                raise
            outcome.failed[path] = str(error)
        else:
            outcome.written.append(result)
        step(1.0)
    return outcome


def run_with_bar(model: LutModel, source: str | Path, target: str | Path, quiet: bool = False) -> Outcome:
    """`run_files` with a progress bar on the terminal."""
    with progress(quiet=quiet) as report:
        return run_files(model, source, target, report)


def pictures(source: str | Path) -> Iterator[np.ndarray]:
    """The pixels of an image, or of all images of a folder."""
    path = Path(source)
    files = [p for p in sorted(path.iterdir()) if is_picture(p)] if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path} holds no images")
    for file in files:
        yield read_picture(file).pixels
