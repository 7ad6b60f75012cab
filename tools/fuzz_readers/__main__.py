"""`python -m tools.fuzz_readers`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tools.fuzz_readers import READERS, fuzz
from twinnet.files import atomic_write

__all__ = ["main"]

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the named readers; 1 if anything but a reading or a refusal happened."""
    parser = argparse.ArgumentParser(description="Damaged files, thousands for each reader.")
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results")
    given = parser.parse_args(arguments)
    unknown = set(given.readers) - set(READERS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(READERS)}")
    rows = [
        fuzz(name, READERS[name], given.files, given.seed, given.out / "fuzz")
        for name in given.readers or READERS
    ]
    print(
        f"{'reader':<16}{'files':>8}{'read':>8}{'refused':>9}{'traces':>8}{'crashes':>9}{'hangs':>7}{'s':>8}"
    )
    for row in rows:
        print(
            f"{row.reader:<16}{row.files:>8}{row.read:>8}{row.refused:>9}{row.traces:>8}{row.crashes:>9}"
            f"{row.hangs:>7}{row.seconds:>8.0f}"
        )
    given.out.mkdir(parents=True, exist_ok=True)
    atomic_write(given.out / "fuzz.json", json.dumps([asdict(row) for row in rows], indent=1).encode())
    return int(any(row.traces or row.crashes or row.hangs for row in rows))


if __name__ == "__main__":
    sys.exit(main())
