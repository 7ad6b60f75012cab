"""Damaged files, thousands for each reader: `python -m tools.fuzz_readers [--files 10000] [--seed 7] [READER ...]`.

Good files are made once, then damaged: bits flipped, bytes replaced, cut off, repeated, exchanged, numbers made huge,
words of JSON and TOML replaced. Each is read in a process with a limit on memory. A reader may read it or raise one of
twinnet's own errors; anything else is counted: a trace (another exception), a crash (the process died), a hang (more
than ten seconds of the processor's). The files that did it are kept. The table goes to the screen and to
bench-results/fuzz.json.
"""

from __future__ import annotations

from tools.fuzz_readers.damage import damaged
from tools.fuzz_readers.data import DATA
from tools.fuzz_readers.networks import NETWORKS
from tools.fuzz_readers.reader import Reader
from tools.fuzz_readers.running import Row, fuzz
from tools.fuzz_readers.runs import RUNS
from tools.fuzz_readers.settings import SETTINGS

__all__ = ["READERS", "Reader", "Row", "damaged", "fuzz"]

READERS: dict[str, Reader] = {**NETWORKS, **DATA, **SETTINGS, **RUNS}
"""Every kind of file that somebody else may have written."""
