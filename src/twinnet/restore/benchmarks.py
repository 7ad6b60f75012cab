"""Test sets: folders named like the published ones, each with good images and, for some, the bad ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.pictures import is_picture
from twinnet.restore.data.images import ImageSet, Watch, open_images
from twinnet.restore.experiment import Experiment
from twinnet.restore.tasks import Image, Task, task_of

__all__ = ["Benchmark", "benchmarks_in", "find_benchmarks", "hashes_of_tests"]

_GOOD = ("HR", "sharp", "GT", "target")
_ALIASES = {"LIVE1": ("LIVE1_gray",), "GoPro": ("GoPro/test", "GOPRO"), "BSD100": ("B100",)}


@dataclass(frozen=True)
class Benchmark:
    """One test set."""

    name: str
    good: Path
    low: Path | None

    def images(self, watch: Watch | None = None) -> ImageSet:
        """Its good images."""
        return open_images([self.good], watch)

    def pairs(
        self, task: Task, watch: Watch | None = None, only: str | None = None
    ) -> Iterator[tuple[str, Image, Image]]:
        """Name, bad and good image of every one: the given bad image where there is one, else made."""
        images = self.images(watch)
        given = {} if self.low is None else _by_name(open_images([self.low], watch))
        for entry, image in zip(images.entries, images):
            if only not in (None, entry.name):
                continue
            low, good = task.degrade(np.asarray(image))
            found = given.get(entry.name, given.get(f"{entry.name}x{task.scale}"))
            if found is not None:
                low = _fitted(np.asarray(found), good, task, f"{self.name}/{entry.name}")
            yield entry.name, low, good


def _by_name(images: ImageSet) -> dict[str, np.ndarray]:
    return {entry.name: images[k] for k, entry in enumerate(images.entries)}


def _fitted(low: Image, good: Image, task: Task, where: str) -> Image:
    """A given bad image with the colours and the part of the good one."""
    if low.ndim == 2 and good.ndim == 3:
        low = np.repeat(low[..., None], 3, axis=2)
    rows, columns = (side // task.scale for side in good.shape[:2])
    if low.shape[0] < rows or low.shape[1] < columns or low.ndim != good.ndim:
        raise UsageError(f"{where}: the bad image {list(low.shape)} does not go with {list(good.shape)}")
    return low[:rows, :columns]


def find_benchmarks(
    experiment: Experiment, bench: str | Path | None = None
) -> tuple[list[Benchmark], list[str]]:
    """The test sets of an experiment that are there, and the names of those that are not; `bench` is another folder
    than the config's."""
    config, task = experiment.config, task_of(experiment.config)
    wanted = config.data.benchmarks or list(task.benchmarks)
    if bench is not None:
        return benchmarks_in(Path(bench), task, wanted)
    if not config.data.bench:
        return [], list(wanted)
    (root,) = experiment.paths([config.data.bench])
    return benchmarks_in(root, task, wanted)


def benchmarks_in(
    root: Path, task: Task, wanted: Sequence[str] | None = None
) -> tuple[list[Benchmark], list[str]]:
    """The test sets in a folder, those of the task if none are named; and the names of those that are not there."""
    found, missing = [], []
    for name in task.benchmarks if wanted is None else wanted:
        folder = next((root / n for n in (name, *_ALIASES.get(name, ())) if (root / n).is_dir()), None)
        good = None if folder is None else next((folder / g for g in _GOOD if (folder / g).is_dir()), folder)
        if folder is None or good is None or not any(is_picture(p) for p in good.rglob("*")):
            missing.append(name)
            continue
        bad = (f"LR_x{task.scale}", f"LR_bicubic/X{task.scale}") if task.resizes else ("blur", "low")
        low = next((folder / b for b in bad if (folder / b).is_dir()), None)
        found.append(Benchmark(name, good, low if task.low_is_given else None))
    return found, missing


def hashes_of_tests(experiment: Experiment, watch: Watch | None = None) -> dict[str, str]:
    """The pixels of all test images by their hash, each with its name: no training may use them."""
    found, _ = find_benchmarks(experiment)
    return {
        entry.hash: f"{bench.name}/{entry.name}" for bench in found for entry in bench.images(watch).entries
    }
