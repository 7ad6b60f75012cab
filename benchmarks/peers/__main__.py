"""`python -m benchmarks.peers [NAME ...]`: other tools beside ours, on the same real network and input."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.bar import compile_package, print_bars, write_json
from benchmarks.peers import every_tensor, smallest_proof

_ALL = {"every_tensor": every_tensor, "smallest_proof": smallest_proof}


def main() -> int:
    """Print the tables; exit 1 if a bar was missed."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    missed = False
    compile_package()
    for name in sys.argv[1:] or _ALL:
        if name not in _ALL:
            print(f"no comparison {name!r}; there are: {', '.join(_ALL)}")
            return 2
        bars = _ALL[name].bars()
        print_bars(_ALL[name].TITLE, bars)
        write_json(Path(f"bench-results/peers_{name}.json"), bars)
        missed |= not all(b.met for b in bars)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
