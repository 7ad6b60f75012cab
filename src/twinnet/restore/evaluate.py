"""`twinnet lut eval -e DIR`: everything an experiment has made, on the published test sets, in one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.errors import UsageError
from twinnet.restore.experiment import open_experiment

if TYPE_CHECKING:
    from twinnet.restore.benchmarks import Benchmark
    from twinnet.restore.candidates import Candidate
    from twinnet.restore.tasks import Task

__all__ = ["Evaluation", "Row", "evaluate", "main", "score"]

Watch = Callable[[str, float], None]


@dataclass(frozen=True)
class Row:
    """One candidate on one test set."""

    benchmark: str
    model: str
    scores: dict[str, float]
    """Means over the images."""
    seconds_per_megapixel: float
    """Of output."""
    bytes: int | None
    images: dict[str, dict[str, float]]
    """Scores of every image."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All rows, what was missing, and the images for side-by-side crops."""

    task: str
    rows: list[Row]
    missing: list[str]
    config: str
    shown: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """By test set and image: every candidate's result, and `target`."""

    def best(self, benchmark: str, metric: str) -> float:
        """The best score of all candidates."""
        return max(row.scores[metric] for row in self.rows if row.benchmark == benchmark)


def evaluate(
    folder: str | Path,
    *,
    compare: Sequence[str] = (),
    network: bool = True,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Score all candidates on all test sets that are there; writes `eval/` and returns the numbers.

    `compare` names files of others; `network=False` leaves the slow network out.
    """
    from twinnet.restore.benchmarks import find_benchmarks
    from twinnet.restore.candidates import candidates, compared
    from twinnet.restore.results import write_results
    from twinnet.restore.screen import first_process, watching
    from twinnet.restore.tasks import task_of

    experiment = open_experiment(folder)
    task = task_of(experiment.config)
    found, missing = find_benchmarks(experiment)
    if not found:
        raise UsageError(
            f"none of the test sets of this task is there: {', '.join(missing)}",
            hint=f"name their folder in {experiment.config_file}, [data] bench",
        )
    if not first_process():
        return Evaluation(task.describe(), [], missing, experiment.text)
    models = _told_apart(
        [*candidates(experiment, task, network=network), *(compared(spec, task) for spec in compare)]
    )
    with watching(quiet=quiet) as watch:
        rows, shown = score(task, found, models, watch)
    result = Evaluation(task.describe(), rows, missing, experiment.text, shown)
    write_results(result, experiment.folder / "eval" if out is None else Path(out))
    return result


def _told_apart(models: Sequence[Candidate]) -> list[Candidate]:
    """Names that come again get a number."""
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
    """Every model on every image. The hardest image of each test set is kept for the eye."""
    rows: list[Row] = []
    shown: dict[str, dict[str, np.ndarray]] = {}
    for bench in benchmarks:
        scores: dict[str, dict[str, dict[str, float]]] = {model.name: {} for model in models}
        seconds = dict.fromkeys(scores, 0.0)
        megapixels, hardest = 0.0, np.inf
        count = len(bench.images())
        for number, (name, low, good) in enumerate(bench.pairs(task), start=1):
            megapixels += good.shape[0] * good.shape[1] / 1e6
            results: dict[str, np.ndarray] = {}
            for model in models:
                began = time.perf_counter()
                results[model.name] = model.restore(low)
                seconds[model.name] += time.perf_counter() - began
                scores[model.name][name] = _scored(task, results[model.name], good, f"{bench.name}/{name}")
                if watch is not None:
                    watch(f"{bench.name}/{name}: {model.name}", number / count)
            first = next(iter(scores[models[0].name][name].values()))
            if first < hardest:
                hardest = first
                shown[f"{bench.name}/{name}"] = {**results, "target": np.asarray(good)}
                for other in [
                    k for k in shown if k.startswith(f"{bench.name}/") and k != f"{bench.name}/{name}"
                ]:
                    del shown[other]
        for model in models:
            every = scores[model.name]
            means = {key: float(np.mean([s[key] for s in every.values()])) for key in task.metrics}
            rows.append(
                Row(bench.name, model.name, means, seconds[model.name] / megapixels, model.bytes, every)
            )
    return rows, shown


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
        parser.add_argument("--compare", nargs="+", default=(), metavar="FILE", help="models of others")
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
