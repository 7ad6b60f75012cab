"""Running a table network over an image, a folder or a video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from twinnet.errors import TwinnetError, UsageError
from twinnet.files import sweep
from twinnet.lut.model import LutModel
from twinnet.lut.pictures import is_picture
from twinnet.lut.saving import Saving, check_target, upscale_file
from twinnet.lut.video import VIDEOS, upscale_video, written_as
from twinnet.progress import progress

__all__ = ["Outcome", "files_in", "jobs", "result_name", "run_files", "run_with_bar"]

Progress = Callable[[str, float], None]
"""Called with a file name and the share of all work done."""

Choice = LutModel | Callable[[Path], LutModel]
"""The model for all files, or what chooses one for each."""


@dataclass
class Outcome:
    """What was written, what was there already, and what could not be read."""

    written: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    notes: dict[Path, list[str]] = field(default_factory=dict)
    """By result: what could not be carried over from the file."""
    passed: list[str] = field(default_factory=list)
    """Names in the folder that were not tried: files of other kinds, folders (with a slash)."""


def files_in(source: Path) -> list[Path]:
    """The images and videos of a folder, or the file itself."""
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise UsageError(f"no such file or folder: {source}")
    files = [path for path in _entries(source) if _runs(path)]
    if not files:
        raise UsageError(f"{source} holds no images", hint="folders are not searched below their first level")
    return files


def _entries(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _runs(path: Path) -> bool:
    return path.is_file() and (is_picture(path) or path.suffix.lower() in VIDEOS)


def result_name(path: Path) -> str:
    """The name of a file's result: a video keeps its kind if it can be written, an image becomes PNG."""
    return written_as(path) if path.suffix.lower() in VIDEOS else f"{path.stem}.png"


def jobs(source: Path, target: Path) -> list[tuple[Path, Path]]:
    """Input files and where their results go.

    Results keep the input's name. Images become PNG unless one image goes to a file name with another
    suffix; where that would make two names equal, the old suffix stays in them (`a.jpg.png`).
    """
    files = files_in(source)
    if source.is_dir() and target.exists():
        if not target.is_dir():
            raise UsageError(f"{target} is a file, but {source} is a folder")
        if target.samefile(source):
            raise UsageError(f"{target} is the folder of the inputs", hint="choose another output")
    if source.is_file() and not target.is_dir() and target.suffix:
        return [(source, target)]
    names = Counter(result_name(path) for path in files)
    pairs = []
    for path in files:
        name = result_name(path)
        if names[name] > 1 and path.name != name:
            name = path.name + Path(name).suffix
        pairs.append((path, target / name))
    return pairs


def run_files(
    model: Choice,
    source: str | Path,
    target: str | Path,
    progress: Progress | None = None,
    saving: Saving | None = None,
) -> Outcome:
    """Run every file of `source` into `target`.

    In a folder, a damaged file does not stop the others, and a result that is there already is kept unless `saving`
    says to overwrite it: an interrupted run continues where it stopped.
    """
    saving = saving or Saving()
    pairs = jobs(Path(source), Path(target))
    alone = Path(source).is_file()
    for folder in {result.parent for _, result in pairs}:
        sweep(folder)
    outcome = Outcome()
    if not alone:
        rest = (path for path in _entries(Path(source)) if not _runs(path))
        outcome.passed = [f"{path.name}/" if path.is_dir() else path.name for path in rest]
    for number, (path, result) in enumerate(pairs):

        def step(share: float, path: Path = path, number: int = number) -> None:
            if progress is not None:
                progress(path.name, (number + share) / len(pairs))

        try:
            if not alone and result.exists() and not saving.overwrite and not result.samefile(path):
                outcome.kept.append(result)
            else:
                check_target(path, result, saving)
                chosen = model if isinstance(model, LutModel) else model(path)
                notes = _run_file(chosen, path, result, step, saving)
                outcome.written.append(result)
                if notes:
                    outcome.notes[result] = notes
        except TwinnetError as error:
            if alone:
                raise
            outcome.failed[path] = str(error)
        step(1.0)
    return outcome


def _run_file(
    model: LutModel, path: Path, result: Path, step: Callable[[float], None], saving: Saving
) -> list[str]:
    if path.suffix.lower() in VIDEOS:
        return upscale_video(model, path, result, step)
    upscale_file(model, path, result, step, saving)
    return []


def run_with_bar(
    model: Choice, source: str | Path, target: str | Path, quiet: bool = False, saving: Saving | None = None
) -> Outcome:
    """`run_files` with a progress bar on the terminal."""
    with progress(quiet=quiet) as report:
        return run_files(model, source, target, report, saving)
