"""`twinnet lut eval --task sr --bench DIR`: the tables that come with the package, on test sets and beside others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.models import available
from twinnet.progress import progress
from twinnet.restore.benchmarks import benchmarks_in
from twinnet.restore.candidates import Candidate, tables_candidate
from twinnet.restore.comparing import comparisons
from twinnet.restore.evaluate import Evaluation, score
from twinnet.restore.filters import classical
from twinnet.restore.results import write_results
from twinnet.restore.tasks import Task
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution

__all__ = ["board_of", "evaluate_shipped", "task_of_board"]


def board_of(name: str) -> str:
    """The board a model belongs to.

    >>> board_of("sr-x4-strong"), board_of("denoise-25")
    ('sr-x4', 'denoise-25')
    """
    return "-".join(name.split("-")[:2])


def task_of_board(board: str) -> Task:
    """The task of a board.

    >>> task_of_board("sr-x3").describe(), task_of_board("deblock-40").describe()
    ('sr x3, bicubic matlab', 'deblock JPEG quality 40')
    """
    kind, _, level = board.partition("-")
    if kind == "sr":
        return SuperResolution(int(level[1:]))
    return Denoise(float(level)) if kind == "denoise" else Deblock(int(level))


def evaluate_shipped(
    name: str,
    bench: str | Path,
    *,
    compare: Sequence[str] = (),
    out: str | Path | None = None,
    quiet: bool = False,
) -> Evaluation:
    """A shipped model and all others that do the same, on the test sets in a folder; writes `out` if it is given."""
    board = board_of(name)
    what, root = task_of_board(board), Path(bench)
    if not root.is_dir():
        raise UsageError(f"no such folder of test sets: {root}")
    found, missing = benchmarks_in(root, what)
    if not found:
        raise UsageError(
            f"no test set of this task was found in {root}", hint=f"folders named {', '.join(missing)}"
        )
    here = Path(__file__).parent
    models = [Candidate(what.plain_name, what.plain), *classical(what), *comparisons(compare, what)]
    for own in available():
        if board_of(own) == board:
            models.append(tables_candidate(here / own / f"{own}.lut.safetensors", own, what))
    with progress(quiet=quiet) as watch:
        rows, shown = score(what, found, models, watch)
    result = Evaluation(what.describe(), rows, missing, "", shown)
    if out is not None:
        write_results(result, Path(out))
    return result
