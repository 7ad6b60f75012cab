"""Everything that does one task, in one table: doing nothing, filters, tables and networks of others, and ours.

Scores are kept in `scores.json` with the content they belong to, so only what changed is run again; running times are
measured anew, all in one run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.shipped_tables.competitors import UNIT, competitors
from twinnet.models import available
from twinnet.models.evaluate import board_of, task_of_board
from twinnet.restore.benchmarks import Benchmark, benchmarks_in
from twinnet.restore.candidates import Candidate, tables_candidate
from twinnet.restore.evaluate import score
from twinnet.restore.filters import classical
from twinnet.restore.tasks import Task

__all__ = ["Line", "content_key", "fill", "lines"]

Watch = Callable[[str, float], None]

SCORING = 2
"""Counts up when scores are computed in another way: kept ones then do not count."""


@dataclass(frozen=True)
class Line:
    """One candidate of a board."""

    name: str
    kind: str
    """`plain`, `filter`, `published`, `network` or `ours`."""
    key: str
    """Of its content: kept scores count as long as it is the same."""
    terms: str = ""
    bytes: int | None = None
    lookups: int | None = None
    parameters: int | None = None
    failed: str = ""
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """By test set and metric."""
    ratio: float | None = None
    """Time to make an image by that of MuLUT's x4 tables to make one of the same size, one thread each."""
    worst: dict[str, Any] = field(default_factory=dict)
    """Of ours: the image where the least is gained over doing nothing, and on how many nothing is."""


def lines(board: str, here: Path, data: Path) -> list[tuple[Line, Candidate]]:
    """All candidates of a board, without scores."""
    task = task_of_board(board)
    found = [(Line(task.plain_name, "plain", _key(task.describe())), Candidate(task.plain_name, task.plain))]
    found += [(Line(c.name, "filter", _key(task.describe(), c.name)), c) for c in classical(task)]
    for other, path, candidate in competitors(task, data):
        found.append((Line(other.name, other.kind, _key(task.describe(), path), other.terms), candidate))
    for name in available(here):
        if board_of(name) == board:
            path = here / name / f"{name}.lut.safetensors"
            found.append((Line(name, "ours", content_key(task, path)), tables_candidate(path, name, task)))
    return [
        (
            replace(
                line, bytes=c.bytes, lookups=c.lookups, parameters=c.parameters, failed=c.why_not
            ),
            c,
        )
        for line, c in found
    ]  # fmt: skip


def content_key(task: Task, path: Path) -> str:
    """The key of tables in a file."""
    return _key(task.describe(), path)


def _key(*content: str | Path | None) -> str:
    total = hashlib.sha256(str(SCORING).encode())
    for part in content:
        if isinstance(part, Path):
            for file in sorted(part.glob("*.npy")) if part.is_dir() else [part]:
                total.update(file.read_bytes())
        else:
            total.update(str(part).encode())
    return total.hexdigest()[:16]


def fill(
    board: str, here: Path, data: Path, kept: dict[str, Any] | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """The board as plain data. `kept` is what it was before."""
    from tools.shipped_tables.timing import ratios

    task = task_of_board(board)
    benches, missing = benchmarks_in(data / "images" / "bench", task)
    names = [b.name for b in benches]
    before = {row["key"]: row for row in (kept or {}).get("rows", ()) if list(row["scores"]) == names}
    every = lines(board, here, data)
    plain = every[0][1]
    stale = [c for line, c in every if line.key not in before and not c.why_not and c is not plain]
    # What all others are compared with, image by image, is needed beside any of them.
    fresh = bool(stale) or every[0][0].key not in before
    scored = _scored(task, benches, [plain, *stale], watch) if fresh else {}
    speed = ratios(task, [c for _, c in every], data, watch)
    rows = []
    for line, candidate in every:
        new = line
        if candidate.name in scored:
            new = replace(line, **scored[candidate.name])
        elif not candidate.why_not:
            old = before[line.key]
            new = replace(line, scores=old["scores"], worst=old["worst"], failed=old["failed"])
        if line.kind != "ours":
            new = replace(new, worst={})
        rows.append(asdict(replace(new, ratio=speed.get(candidate.name))))
    return {
        "task": task.describe(),
        "benchmarks": {b.name: len(b.images()) for b in benches},
        "missing": missing,
        "unit": UNIT if speed else None,
        "rows": rows,
    }


def _scored(
    task: Task, benches: list[Benchmark], models: list[Candidate], watch: Watch | None
) -> dict[str, dict[str, Any]]:
    """By candidate: scores, what failed, and the worst image beside the first candidate."""
    rows, _ = score(task, benches, models, watch)
    out: dict[str, dict[str, Any]] = {}
    metric = next(iter(task.metrics))
    plain = {
        (r.benchmark, i): s[metric] for r in rows if r.model == models[0].name for i, s in r.images.items()
    }
    for model in models:
        own = [row for row in rows if row.model == model.name]
        failed = next((row.failed for row in own if row.failed), "")
        means = {} if failed else {r.benchmark: {k: round(v, 4) for k, v in r.scores.items()} for r in own}
        gains = {(r.benchmark, i): s[metric] for r in own for i, s in r.images.items()}
        worst: dict[str, Any] = {}
        if gains and not failed:
            at = min(gains, key=lambda image: gains[image] - plain[image])
            worst = {
                "image": "/".join(at),
                "score": round(gains[at], 2),
                "plain": round(plain[at], 2),
                "behind": sum(gains[image] < plain[image] for image in gains),
                "images": len(gains),
            }
        out[model.name] = {"scores": means, "failed": failed, "worst": worst}
    return out
