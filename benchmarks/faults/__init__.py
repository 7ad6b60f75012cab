"""The fault benchmark: faults planted in real networks. Is each found, at the right layer, with its cause?

`python -m benchmarks.faults [--trials N] [--seed S]` prints one table and writes bench-results/faults.json.
A new fault is one function under `@injector` in `benchmarks/faults/kinds/`.
"""

from __future__ import annotations

import importlib
import pkgutil

from benchmarks.faults import kinds
from benchmarks.faults.edit import INJECTORS

__all__ = ["INJECTORS", "bars"]

for _module in pkgutil.iter_modules(kinds.__path__):
    importlib.import_module(f"{kinds.__name__}.{_module.name}")


def bars():
    """The rows for `python -m benchmarks`."""
    from benchmarks.faults.run import run_all

    return run_all(trials=120, seed=0).bars()
