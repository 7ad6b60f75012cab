"""`python -m benchmarks.faults [--trials N] [--seed S] [--networks A,B] [--faults TEXT] [--mutants N]`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.bar import print_bars, write_json
from benchmarks.faults.run import run_all, write


def main() -> int:
    """Exit 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.faults", description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--networks", default="", help="only these, separated by commas (also: tables, executorch)"
    )
    parser.add_argument("--faults", default="", help="only faults whose name contains one of these")
    parser.add_argument("--no-clean", action="store_true", help="skip the clean pairs")
    parser.add_argument(
        "--mutants", type=int, default=200, help="twins made wrong at random; 0: no hidden wrongs"
    )
    parser.add_argument("--out", default="bench-results/faults.json")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every trial")
    given = parser.parse_args()

    def show(o) -> None:
        mark = (
            "ok" if o.right and o.first else "WRONG" if o.wrong else "--" if o.state == "scored" else o.state
        )
        print(
            f"{mark:<9} {o.network:<12} {o.twin:<7} {o.fault[:34]:<34} {o.blame:5.2f}s "
            f"{o.cause or '?':<14} {o.sentence[:150]}"
            + ("" if o.first else f" [planted at {o.tensor}, accused {o.accused or 'nothing'}]"),
            flush=True,
        )

    def chosen(text: str) -> list[str]:
        return [t for t in text.split(",") if t]

    import benchmarks.faults  # noqa: F401 (registers the faults)

    report = run_all(
        given.trials,
        given.seed,
        chosen(given.networks),
        chosen(given.faults),
        not given.no_clean,
        show if given.verbose else None,
    )
    print(report.table())
    bars = report.bars()
    print_bars("faults", bars)
    write(report, Path(given.out))
    if given.mutants:
        from benchmarks.hidden.run import run_hidden

        def tell(told) -> None:
            print(f"{'HIDDEN' if told.hidden else 'ok':<7} {told.name}: {told.answer}", flush=True)

        hidden = run_hidden(given.mutants, given.seed, tell if given.verbose else None)
        print_bars("hidden wrongs", hidden)
        write_json(Path(given.out).with_name("hidden.json"), hidden)
        bars += hidden
    return 1 if any(not b.met for b in bars) else 0


if __name__ == "__main__":
    sys.exit(main())
