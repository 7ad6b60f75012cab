"""`python -m benchmarks [NAME ...]`: run benchmarks, print their tables, write bench-results/NAME.json."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import benchmarks
from benchmarks.bar import compile_package, print_bars, write_json

NOT_BENCHMARKS = {"__main__", "bar", "faults", "hidden", "peers"}


def main() -> int:
    """Exit 1 if a bar was missed."""
    known = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in NOT_BENCHMARKS]
    names = sys.argv[1:] or known
    missed = 0
    compile_package()
    for name in names:
        if name not in known:
            print(f"no benchmark {name!r}; there are: {', '.join(known)}")
            return 2
        bars = importlib.import_module(f"benchmarks.{name}").bars()
        print_bars(name.replace("_", " "), bars)
        write_json(Path("bench-results") / f"{name}.json", bars)
        missed += sum(not b.met for b in bars)
    print(f"\n{missed} bars missed" if missed else "\nall bars met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
