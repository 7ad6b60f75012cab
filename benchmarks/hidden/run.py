"""All attacks and the search, as bars."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.bar import Bar
from benchmarks.hidden.attack import ATTACKS, Told, run_attack
from benchmarks.hidden.search import search

__all__ = ["run_hidden"]


def run_hidden(mutants: int, seed: int, show: Callable[[Told], None] | None = None) -> list[Bar]:
    """The promise: no wrong twin passes with strong evidence and without a word."""
    import benchmarks.hidden  # noqa: F401 (registers the attacks)

    hidden: dict[str, list[Told]] = {"by construction": [], "by search": []}
    found = 0
    for name in ATTACKS:
        told = run_attack(name, seed)
        hidden["by construction"] += [told] if told.hidden else []
        if show is not None:
            show(told)
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        for told in search(mutants, seed, Path(folder)):
            found += 1
            hidden["by search"] += [told] if told.hidden else []
            if show is not None:
                show(told)
    rows = [Bar("kinds of hidden wrongs", len(ATTACKS), 40, True), Bar("mutants tried", found, mutants, True)]
    for how, several in hidden.items():
        rows.append(
            Bar(
                f"hidden wrongs that pass, {how}",
                len(several),
                0,
                note="; ".join(t.name for t in several[:3]),
            )
        )
    return rows
