"""`twinnet lut fit -e DIR`: the tables of an experiment, fitted to its images without any network."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.errors import UsageError
from twinnet.progress import Report, progress, silent
from twinnet.restore.config import Config
from twinnet.restore.experiment import Experiment, open_experiment
from twinnet.restore.fit.cascade import FitResult, FitStage, StageReport, fit_cascade
from twinnet.restore.fit.images import FitImages
from twinnet.restore.fit.smooth import Penalty
from twinnet.restore.fit.solve import Settings, Watch

if TYPE_CHECKING:
    from twinnet.lut.plan import Plan
    from twinnet.restore.data import Pairs
    from twinnet.restore.fit.search import Choice, Pool

__all__ = ["FitDone", "fit", "fit_images", "held_out", "search", "settings_of"]


@dataclass(frozen=True, eq=False)
class FitDone:
    """The result of a fit."""

    path: Path
    result: FitResult
    psnr: float
    """On the validation planes, of the tables as they deploy."""
    plain: float
    """The same without tables (bicubic, or the input)."""
    seconds: float
    cpu: float


def settings_of(config: Config) -> Settings:
    """Settings of the solver as `[fit]` states them."""
    s = config.fit
    threads = (
        s.threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else s.threads or 1
    )
    return Settings(
        tuple(s.iterations), tuple(s.shares), Penalty(s.size, s.axis, s.diagonal), patience=s.patience,
        threads=threads,
    )  # fmt: skip


def fit_images(experiment: Experiment, quiet: bool = False) -> tuple[FitImages, FitImages]:
    """Training and validation planes of an experiment."""
    from twinnet.restore.benchmarks import hashes_of_tests
    from twinnet.restore.data import training_data

    s = experiment.config.fit
    with progress(quiet=quiet) as watch:
        data = training_data(experiment, hashes_of_tests(experiment, watch), watch)
        train = _planes(experiment, data.train, s.planes, s.half, watch)
        return train, _planes(experiment, data.valid, "all", False, watch)


def _planes(experiment: Experiment, pairs: Pairs, planes: str, half: bool, watch: Report) -> FitImages:
    from twinnet.restore.tasks import task_of

    def numbers() -> Iterator[int]:
        for number in range(len(pairs)):
            watch("making planes", number / len(pairs))
            yield number

    task = task_of(experiment.config)
    if experiment.config.data.train_low:
        return FitImages.of_pairs(task.scale, map(pairs.pair, numbers()), planes=planes)
    good = (np.asarray(pairs.good[number]) for number in numbers())
    return FitImages.of_task(task, good, planes=planes, half=half)


def held_out(folder: str | Path, tables: Path) -> tuple[float, float]:
    """PSNR of some tables and of no restoration over all validation planes of an experiment, as `fit` states them."""
    from twinnet.lut.file import read
    from twinnet.restore.data import training_data

    experiment = open_experiment(folder)
    valid = _planes(experiment, training_data(experiment).valid, "all", False, silent)
    return _scores(experiment, read(tables).plan, valid)


def fit(folder: str | Path, *, quiet: bool = False) -> FitDone:
    """Fit the cascade that `[fit]` describes; the tables go to `lut/fitted.lut.safetensors`."""
    from twinnet.lut.file import LutFile, write

    experiment = open_experiment(folder)
    config = experiment.config
    stages = config.fit.cascade(config.model.scale)
    began = time.perf_counter(), time.process_time()
    train, valid = fit_images(experiment, quiet)
    path = experiment.tables("fitted")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name("fitting.lut.safetensors")
    with _bars(len(stages), quiet) as watch:
        result = _fit_on(experiment, stages, (train, valid), partial, watch)
    seconds, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    notes = (
        f"fitted by least squares on {train.sites:,} sites of {len(train.inputs)} planes, without a network",
        *(f"{s.name}: error {s.error:.4f} on validation, {s.iterations} iterations" for s in result.stages),
    )
    name = f"fit-{config.fit.preset}"
    write(
        LutFile(result.plan, name, config.model.task, notes=notes, config=experiment.text, tuned=True), path
    )
    partial.unlink(missing_ok=True)
    return FitDone(path, result, *_scores(experiment, result.plan, valid), seconds, cpu)


def _fit_on(
    experiment: Experiment,
    stages: Sequence[FitStage],
    images: tuple[FitImages, FitImages],
    partial: Path,
    watch: Callable[[str], Watch | None],
) -> FitResult:
    """Fit all stages, keeping each in `partial` as it is done; stages kept there by an interrupted fit of the same
    config are not fitted again."""
    from twinnet.lut.file import LutFile, read, write

    begin: FitResult | None = None
    if partial.is_file():
        kept = read(partial)
        if kept.config == experiment.text and len(kept.plan.stages) < len(stages):
            reports = tuple(StageReport(**json.loads(note)) for note in kept.notes)
            begin = FitResult(kept.plan, reports)

    def keep(result: FitResult) -> None:
        notes = tuple(json.dumps(asdict(report)) for report in result.stages)
        write(LutFile(result.plan, "partial", notes=notes, config=experiment.text, tuned=True), partial)

    rest = stages[len(begin.plan.stages) :] if begin else stages
    return fit_cascade(rest, images, settings_of(experiment.config), watch, begin, keep)


def search(
    folder: str | Path,
    stage: int,
    count: int,
    *,
    pool: Pool,
    share: float = 0.2,
    quiet: bool = False,
) -> list[Choice]:
    """Find `count` patterns for one stage of an experiment's cascade, on a share of its images."""
    from twinnet.restore.fit.cascade import prepare
    from twinnet.restore.fit.search import candidates
    from twinnet.restore.fit.search import search as find

    experiment = open_experiment(folder)
    stages = experiment.config.fit.cascade(experiment.config.model.scale)
    if not 1 <= stage <= len(stages):
        raise UsageError(f"the cascade has no stage {stage}", hint=f"1 to {len(stages)}")
    how = settings_of(experiment.config)
    train, valid = fit_images(experiment, quiet)
    images = _some(train, share), _some(valid, share)
    begin = _before(stages[: stage - 1], images, how) if stage > 1 else None
    template = stages[stage - 1]
    found = candidates(template.cell, max(1, len(template.sources)), pool)
    ready = prepare(template, images, begin, pool.window + 2 * template.cell, how.threads)
    with progress(quiet=quiet) as watch:
        return find(template, ready, found, count, how, watch)


def _some(images: FitImages, share: float) -> FitImages:
    step = max(1, min(round(1 / share), len(images.inputs)))
    return FitImages(images.inputs[::step], images.goods[::step], images.scale)


def _before(stages: Sequence[FitStage], images: tuple[FitImages, FitImages], how: Settings) -> FitResult:
    """The stages before the one searched for, fitted towards the size they reach."""
    scales = {"input": 1}
    for number, stage in enumerate(stages, start=1):
        source = stage.sources[0] if stage.sources else f"stage{number - 1}" if number > 1 else "input"
        scales[f"stage{number}"] = scales[source] // stage.cell * stage.upscale
    scale = scales[f"stage{len(stages)}"]
    train, valid = (FitImages(side.inputs, tuple(side.targets(scale)), scale) for side in images)
    return fit_cascade(stages, (train, valid), how)


def _scores(experiment: Experiment, plan: Plan, valid: FitImages) -> tuple[float, float]:
    """PSNR of the tables and of no restoration over all validation planes."""
    from twinnet.lut.executors import make
    from twinnet.restore.tasks import task_of

    task, executor = task_of(experiment.config), make(plan)
    return (
        _psnr(valid, lambda low: executor.run(low[None])[0, 0]),
        _psnr(valid, task.plain),
    )


def _psnr(images: FitImages, restore: Callable[[np.ndarray], np.ndarray]) -> float:
    total = count = 0
    for low, good in zip(images.inputs, images.goods):
        difference = restore(low).astype(np.float64) - good
        total, count = total + float((difference**2).sum()), count + good.size
    return float(10 * np.log10(255**2 * count / total)) if total else float("inf")


@contextmanager
def _bars(stages: int, quiet: bool) -> Iterator[Callable[[str], Watch | None]]:
    """A bar per stage, on a terminal."""
    import sys

    if quiet or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns: Sequence[object] = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:  # type: ignore[arg-type]

        def begin(name: str) -> Watch:
            task = bar.add_task(f"{name} of {stages}", total=None, note="")
            return lambda done, total, note: bar.update(task, completed=done, total=total, note=note)

        yield begin
