"""`twinnet lut eval -e DIR`: everything an experiment has made, on the published test sets, in one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.errors import TwinnetError, UsageError
from twinnet.restore.experiment import Experiment, open_experiment

if TYPE_CHECKING:
    from twinnet.restore.benchmarks import Benchmark
    from twinnet.restore.candidates import Candidate
    from twinnet.restore.tasks import Task

__all__ = ["Evaluation", "Row", "evaluate", "main", "score", "told_apart"]

Watch = Callable[[str, float], None]


@dataclass(frozen=True)
class Row:
    """One candidate on one test set."""

    benchmark: str
    model: str
    scores: dict[str, float]
    """Means over the images; empty if it could not run."""
    seconds_per_megapixel: float
    """CPU time on one thread per megapixel of output. Clocks of shared machines differ from minute to minute: compare
    `ratio`."""
    bytes: int | None
    images: dict[str, dict[str, float]]
    """Scores of every image."""
    lookups: int | None = None
    parameters: int | None = None
    ratio: float | None = None
    """Running time divided by that of OpenCV's cubic resampling or bilateral filter, on the same images in this run."""
    failed: str = ""
    """Why it has no scores."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All rows, what was missing, and the images for side-by-side crops."""

    task: str
    rows: list[Row]
    missing: list[str]
    config: str
    shown: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """By test set and image: every candidate's result, and `target`."""


def evaluate(
    folder: str | Path,
    *,
    compare: Sequence[str] = (),
    network: bool = True,
    bench: str | Path | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Score all candidates on all test sets that are there; writes `eval/` and returns the numbers.

    `compare` names models of other projects, or folders of them; `network=False` leaves the slow network out; `bench`
    is a folder of test sets instead of the one in the config.
    """
    from twinnet.progress import progress
    from twinnet.restore.benchmarks import find_benchmarks
    from twinnet.restore.candidates import candidates
    from twinnet.restore.comparing import comparisons
    from twinnet.restore.results import write_results
    from twinnet.restore.screen import first_process
    from twinnet.restore.tasks import task_of

    experiment = open_experiment(folder)
    task = task_of(experiment.config)
    found, missing = find_benchmarks(experiment, bench)
    if not found:
        place = "" if bench is None else f" in {bench}"
        raise UsageError(
            f"no test set of this task was found{place}: {', '.join(missing)}",
            hint=_wanted(experiment, missing, bench),
        )
    if not first_process():
        return Evaluation(task.describe(), [], missing, experiment.text)
    models = [*candidates(experiment, task, network=network), *comparisons(compare, task)]
    with progress(quiet=quiet) as watch:
        rows, shown = score(task, found, models, watch)
    result = Evaluation(task.describe(), rows, missing, experiment.text, shown)
    write_results(result, experiment.folder / "eval" if out is None else Path(out))
    return result


def _wanted(experiment: Experiment, missing: Sequence[str], bench: str | Path | None) -> str:
    """Which setting brings the test sets of an experiment."""
    data, file = experiment.config.data, experiment.config_file
    if bench is None and not data.bench:
        return f"name the folder they are in: --bench, or [data] bench in {file}"
    root = experiment.paths([data.bench])[0] if bench is None else Path(bench)
    found = sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
    if not found:
        said = f"[data] bench in {file} is {data.bench}" if bench is None else f"--bench is {bench}"
        return f"{said}, where there are no folders of images"
    return (
        f"{root} has {', '.join(found[:6])}: list those you want in [data] benchmarks of {file}, "
        f"or put {missing[0]} there"
    )


def told_apart(models: Sequence[Candidate]) -> list[Candidate]:
    """Number repeated names."""
    seen: Counter[str] = Counter()
    found = []
    for model in models:
        seen[model.name] += 1
        again = seen[model.name] > 1
        found.append(replace(model, name=f"{model.name} ({seen[model.name]})") if again else model)
    return found


def score(
    task: Task, benchmarks: Iterable[Benchmark], models: Sequence[Candidate], watch: Watch | None = None
) -> tuple[list[Row], dict[str, dict[str, np.ndarray]]]:
    """Score every model on every image; one that fails has no scores on that test set. The hardest image of each test
    set is kept to be shown."""
    models = told_apart(models)
    rows: list[Row] = []
    shown: dict[str, dict[str, np.ndarray]] = {}
    for bench in benchmarks:
        runs = {model.name: _Run(model) for model in models}
        megapixels, hardest = 0.0, np.inf
        count = len(bench.images())
        for number, (name, low, good) in enumerate(bench.pairs(task), start=1):
            megapixels += good.shape[0] * good.shape[1] / 1e6
            results: dict[str, np.ndarray] = {}
            for model in models:
                if watch is not None:
                    watch(f"{bench.name}/{name}: {model.name}", (number - 1) / count)
                result = runs[model.name].on(low)
                if result is not None:
                    results[model.name] = result
                    runs[model.name].scores[name] = _scored(task, result, good, f"{bench.name}/{name}")
            first = next((run.scores[name] for run in runs.values() if name in run.scores), None)
            if first is not None and next(iter(first.values())) < hardest:
                hardest = next(iter(first.values()))
                for other in [k for k in shown if k.startswith(f"{bench.name}/")]:
                    del shown[other]
                shown[f"{bench.name}/{name}"] = {**results, "target": np.asarray(good)}
        unit = next((r.seconds for r in runs.values() if r.model.unit and not r.failed), None)
        rows += [run.row(bench.name, megapixels, unit) for run in runs.values()]
    return rows, shown


class _Run:
    """One model on one test set, so far."""

    def __init__(self, model: Candidate) -> None:
        self.model = model
        self.scores: dict[str, dict[str, float]] = {}
        self.seconds = 0.0
        self.failed = model.why_not

    def on(self, low: np.ndarray) -> np.ndarray | None:
        """Its result; None once it has failed."""
        if self.failed:
            return None
        began = time.process_time()
        try:
            result = self.model.restore(low)
        except TwinnetError as error:
            self.failed = error.what
            return None
        self.seconds += time.process_time() - began
        return result

    def row(self, bench: str, megapixels: float, unit: float | None) -> Row:
        """Means, costs, or what went wrong."""
        model, every = self.model, {} if self.failed else self.scores
        keys = next(iter(every.values())) if every else ()
        means = {key: float(np.mean([s[key] for s in every.values()])) for key in keys}
        return Row(
            bench, model.name, means, self.seconds / megapixels if megapixels else 0.0, model.bytes, every,
            model.lookups, model.parameters, self.seconds / unit if unit and every else None, self.failed,
        )  # fmt: skip


def _scored(task: Task, restored: np.ndarray, good: np.ndarray, where: str) -> dict[str, float]:
    try:
        return {key: metric(restored, good) for key, metric in task.metrics.items()}
    except UsageError as error:
        raise UsageError(f"{where} cannot be scored: {error.what}", hint=error.hint) from error


def main() -> None:
    """As a module."""
    import argparse

    from twinnet.restore.results import lines
    from twinnet.restore.screen import first_process, module

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--compare", nargs="+", default=(), metavar="FILE", help="models of others, or folders"
        )
        parser.add_argument(
            "--no-network", dest="network", action="store_false", help="leave the network out"
        )
        parser.add_argument("-o", "--out", metavar="DIR", help="folder for the results (DIR/eval)")

    def verb(folder: str, **given: object) -> None:
        result = evaluate(folder, **given)  # type: ignore[arg-type]
        if first_process():
            print("\n".join(lines(result)))

    module("twinnet.restore.evaluate", "Score an experiment on the test sets.", verb, add)


if __name__ == "__main__":
    main()
