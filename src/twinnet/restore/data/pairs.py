"""Good images with their bad ones: given in folders, made once and kept, or drawn anew for every crop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from twinnet.cache import content_key
from twinnet.errors import UsageError
from twinnet.restore.bicubic import shrink
from twinnet.restore.data.images import ImageSet, Watch, open_images, store
from twinnet.restore.tasks import Task

__all__ = ["Pairs", "open_pairs", "with_halves"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Good images of a task (as trained on) and their bad ones; `low` is None where crops draw their own."""

    task: Task
    good: Sequence[np.ndarray]
    low: Sequence[np.ndarray] | None
    names: tuple[str, ...]
    hashes: tuple[str, ...]
    """Of the images as they were read, before anything was done to them."""
    skipped: dict[str, str]

    def __len__(self) -> int:
        return len(self.good)

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The whole bad and good image; where crops draw their own, one draw that depends on `index` only."""
        good = self.good[index]
        if self.low is not None:
            return self.low[index], good
        return self.task.low(good, np.random.default_rng([index, 77])), good

    def chosen(self, which: Sequence[int]) -> Pairs:
        """Some of them."""
        return replace(
            self,
            good=_some(self.good, which),
            low=None if self.low is None else _some(self.low, which),
            names=tuple(self.names[i] for i in which),
            hashes=tuple(self.hashes[i] for i in which),
        )


class _Lazy(Sequence[np.ndarray]):
    """Images that are made when they are asked for. Makers must pickle: workers of a loader get a copy."""

    def __init__(self, makers: Iterable[Callable[[], np.ndarray]]) -> None:
        self._makers = tuple(makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]
        return self._makers[index]()


def _some(images: Sequence[np.ndarray], which: Iterable[int]) -> Sequence[np.ndarray]:
    return _Lazy(partial(images.__getitem__, k) for k in which)


def _trained(task: Task, images: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return _Lazy(partial(_trained_one, task, images, k) for k in range(len(images)))


def _trained_one(task: Task, images: Sequence[np.ndarray], index: int) -> np.ndarray:
    return task.trained(images[index])


def _cut(images: Sequence[np.ndarray], index: int, rows: int, columns: int) -> np.ndarray:
    return images[index][:rows, :columns]


def open_pairs(
    task: Task,
    folders: Iterable[str | Path],
    low_folders: Iterable[str | Path] = (),
    watch: Watch | None = None,
) -> Pairs:
    """The pairs in folders of good images; bad ones are read by name from the folder that goes with each, else made."""
    given = list(low_folders)
    if given:
        roots = list(folders)
        if len(given) != len(roots):
            raise UsageError(f"{len(roots)} folders of good images, but {len(given)} of bad ones")
        return _joined([_given(task, root, low, watch) for root, low in zip(roots, given)])
    images = open_images(folders, watch)
    good = _kept(task, "trained", images, watch)
    low = None if task.at_crop else _kept(task, "low", images, watch)
    return Pairs(task, good, low, images.names, images.hashes, images.skipped)


def with_halves(pairs: Pairs, watch: Watch | None = None) -> Pairs:
    """The pairs, and after them every good image once more at half its size with the bad one made from that.

    >>> from twinnet.restore.tasks.sr import SuperResolution
    >>> image = np.zeros((32, 48, 3), np.uint8)
    >>> low = np.zeros((8, 12, 3), np.uint8)
    >>> both = with_halves(Pairs(SuperResolution(4), [image], [low], ("a",), ("0",), {}))
    >>> [bad.shape for bad in both.low], both.names
    ([(8, 12, 3), (4, 6, 3)], ('a', 'a at half its size'))
    """
    task = pairs.task
    names = tuple(f"{name} at half its size" for name in pairs.names)

    def made(part: str) -> Iterator[tuple[str, np.ndarray]]:
        random = np.random.RandomState(0)
        for number, (name, image) in enumerate(zip(names, pairs.good), start=1):
            good = task.trained(shrink(image, 2))
            yield name, good if part == "trained" else task.low(good, random)
            if watch is not None:
                watch("making images of half the size", number / len(names))

    def kept(part: str) -> ImageSet:
        return store(content_key("restore-half-1", task.describe(), part, *pairs.hashes), lambda: made(part))

    low = None if pairs.low is None else kept("low")
    halves = Pairs(task, kept("trained"), low, names, pairs.hashes, {})
    return _joined([pairs, halves])


def _given(task: Task, root: str | Path, low_root: str | Path, watch: Watch | None) -> Pairs:
    images = open_images([root], watch)
    good, low = _matched(task, images, open_images([low_root], watch))
    return Pairs(task, good, low, images.names, images.hashes, images.skipped)


def _joined(parts: Sequence[Pairs]) -> Pairs:
    def chain(sides: Iterable[Sequence[np.ndarray]]) -> Sequence[np.ndarray]:
        return _Lazy(partial(side.__getitem__, k) for side in sides for k in range(len(side)))

    return Pairs(
        parts[0].task,
        chain(part.good for part in parts),
        None if parts[0].low is None else chain(part.low for part in parts if part.low is not None),
        tuple(name for part in parts for name in part.names),
        tuple(digest for part in parts for digest in part.hashes),
        {name: why for part in parts for name, why in part.skipped.items()},
    )


def _kept(task: Task, part: str, images: ImageSet, watch: Watch | None) -> Sequence[np.ndarray]:
    """What the task makes of all images, made once."""
    if part == "trained" and type(task).trained is Task.trained:
        return images
    if part == "trained" and task.only_cuts:
        return _trained(task, images)
    random = np.random.RandomState(0)

    def made() -> Iterator[tuple[str, np.ndarray]]:
        for number, (entry, image) in enumerate(zip(images.entries, images), start=1):
            good = task.trained(image)
            yield entry.name, good if part == "trained" else task.low(good, random)
            if watch is not None:
                watch(f"making {task.name} images", number / len(images))

    return store(content_key("restore-made-1", images.key, task.describe(), part), made)


def _matched(task: Task, good: ImageSet, low: ImageSet) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
    """Bad images by the names of good ones; `0001x4` goes with `0001`."""
    by_name = {entry.name: k for k, entry in enumerate(low.entries)}
    cut: list[Callable[[], np.ndarray]] = []
    for k, entry in enumerate(good.entries):
        known = (entry.name, f"{entry.name}x{task.scale}", entry.name.replace("sharp", "blur"))
        found = next((by_name[name] for name in known if name in by_name), None)
        if found is None:
            raise UsageError(
                f"no bad image goes with {entry.name}", hint=f"looked for {', '.join(known[:2])}"
            )
        a, b = task.trained(good[k]), low[found]
        if a.ndim != b.ndim:
            raise UsageError(f"{entry.name}: one image of the pair is gray and the other has colours")
        rows, columns = (side // task.scale for side in a.shape[:2])
        if b.shape[0] < rows or b.shape[1] < columns or max(b.shape[0] - rows, b.shape[1] - columns) > 1:
            raise UsageError(
                f"{entry.name}: the bad image has {b.shape[0]} x {b.shape[1]} pixels, the good one "
                f"{a.shape[0]} x {a.shape[1]}, which is not x{task.scale}"
            )
        cut.append(partial(_cut, low, found, rows, columns))
    return _trained(task, good), _Lazy(cut)
