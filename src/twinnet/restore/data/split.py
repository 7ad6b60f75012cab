"""What an experiment trains on and what it validates on: never the same image, and never one of its test sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinnet.errors import UsageError
from twinnet.restore.data.crops import Crops
from twinnet.restore.data.images import Watch
from twinnet.restore.data.pairs import Pairs, open_pairs, with_halves
from twinnet.restore.experiment import Experiment
from twinnet.restore.tasks import task_of

__all__ = ["SMALLEST", "TrainingData", "training_crops", "training_data"]

SMALLEST = 32
"""Side of an image below which scores say nothing, or cannot be computed."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Pairs to train on and pairs to validate on."""

    train: Pairs
    valid: Pairs
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


def training_data(
    experiment: Experiment, tests: Mapping[str, str] | None = None, watch: Watch | None = None, *,
    half: bool = False,
) -> TrainingData:  # fmt: skip
    """The data of an experiment. `tests` maps hashes of test images to their names: none of them may be used.

    `half` adds every training image once more at half its size.
    """
    data, task = experiment.config.data, task_of(experiment.config)
    if not data.train:
        raise UsageError(
            f"{experiment.config_file} names no folder of images to train on", hint="fill in [data] train"
        )
    every = open_pairs(task, experiment.paths(data.train), experiment.paths(data.train_low), watch)
    if data.valid:
        valid = open_pairs(task, experiment.paths(data.valid), experiment.paths(data.valid_low), watch)
    else:
        large = [min(every.good[k].shape[:2]) >= SMALLEST for k in range(len(every))]
        valid = every.chosen(_held_out(every.hashes, data.valid_share, large))
    held = set(valid.hashes)
    kept = [k for k, digest in enumerate(every.hashes) if digest not in held]
    if not kept:
        raise UsageError(
            f"all {len(every)} images are held out for validation, so none is left to train on",
            hint="add images, or name other ones in [data] valid",
        )
    train = every.chosen(kept)
    _never_test(train, valid, tests or {})
    train = with_halves(train, watch) if half else train
    notes = [f"left out {name}: {why}" for name, why in {**every.skipped, **valid.skipped}.items()]
    twice = len(every) - len(train) - (0 if data.valid else len(valid))
    if twice > 0:
        notes.append(f"left out {twice} training images that are also in the validation set")
    return TrainingData(train, valid, tuple(notes))


def training_crops(experiment: Experiment, data: TrainingData, seed: int) -> tuple[Crops, tuple[str, ...]]:
    """The crops to train on, and what was left out of them."""
    d = experiment.config.data
    crops = Crops(data.train, d.crop_size, seed=seed, weigh=d.weigh, augment=d.augment, tones=d.tones)
    if not crops.small:
        return crops, data.notes
    shown = ", ".join(crops.small[:5]) + (" ..." if len(crops.small) > 5 else "")
    return crops, (*data.notes, f"left out {len(crops.small)} images smaller than a crop: {shown}")


def _held_out(hashes: Sequence[str], share: float, large: Sequence[bool]) -> list[int]:
    """At least one image, chosen by its pixels, whatever its name; small ones only where there are no others.

    >>> _held_out(["c", "a", "b"], 0.3, [True, False, True])
    [2]
    """
    ranked = sorted(range(len(hashes)), key=lambda k: (not large[k], hashes[k]))
    return sorted(ranked[: max(1, math.floor(share * len(ranked)))])


def _never_test(train: Pairs, valid: Pairs, tests: Mapping[str, str]) -> None:
    for what, pairs in (("train", train), ("valid", valid)):
        for name, digest in zip(pairs.names, pairs.hashes):
            if digest in tests:
                raise UsageError(
                    f"[data] {what}: {name} is the test image {tests[digest]}",
                    hint="test images must not be used for training or validation",
                )
