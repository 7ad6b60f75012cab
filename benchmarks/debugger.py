"""The live debugger on large traces: how long `cmp` takes over HTTP, with 300 sites and 700 MB on each side."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from benchmarks.bar import Bar

__all__ = ["bars"]

SITES = 300
BYTES = 700 << 20
ASKED = 60


def _traces() -> tuple[object, object]:
    """Both sides as a check leaves them: most of it on disk, memory-mapped."""
    from twinnet.trace import TraceBuilder

    side = int((BYTES / SITES / 4 / 64) ** 0.5)
    rng = np.random.default_rng(0)
    base = rng.random((1, 64, side, side), np.float32)
    ours, theirs = TraceBuilder(), TraceBuilder()
    for i in range(SITES):
        array = base + np.float32(i)
        ours.add(f"block{i // 10}.conv{i}", array)
        theirs.add(f"block{i // 10}.conv{i}", array + np.float32(1e-3) * (base > 0.999))
    return ours.done(), theirs.done()


def bars() -> list[Bar]:
    """`cmp` of one site under 50 ms: the median, and the slowest of sixty sites asked for the first time."""
    from twinnet.debugger.entry import serve_stopped
    from twinnet.debugger.settings import Settings
    from twinnet.debugger.start import stop_at_traces

    ours, theirs = _traces()
    size = sum(np.asarray(a).nbytes for a in ours.values()) / 1e6  # type: ignore[attr-defined]
    stopped = stop_at_traces(ours, theirs)  # type: ignore[arg-type]
    # The traces themselves, not the views that comparing them opened: every question maps its tensors anew.
    stopped.trace, stopped.twin_trace = ours, theirs  # type: ignore[assignment]
    started = threading.Event()
    with tempfile.TemporaryDirectory(prefix="twinnet-bench-") as folder:
        settings = Settings(port=0, folder=Path(folder), info=Path(folder) / "info.env")
        worker = threading.Thread(
            target=serve_stopped, args=(stopped, settings), kwargs={"say": lambda text: started.set()}
        )
        worker.start()
        started.wait(60)
        words = dict(
            line.split("=", 1) for line in settings.info.read_text().splitlines() if line[:1].isupper()
        )  # type: ignore[union-attr]
        connection = HTTPConnection("127.0.0.1", int(words["PORT"]), timeout=60)

        def ask(text: str) -> float:
            start = time.perf_counter()
            connection.request("POST", "/", text, {"X-Token": words["T"]})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            return 1000 * (time.perf_counter() - start)

        ask("help")
        taken = [ask(f"cmp('block{i // 10}.conv{i}')") for i in range(0, SITES, SITES // ASKED)]
        listed = ask("sites()")
        ask("quit")
        worker.join(60)
    note = f"{SITES} sites, {size:.0f} MB on each side"
    return [
        Bar("cmp over HTTP, median, ms", statistics.median(taken), 50, note=note),
        Bar(
            "cmp over HTTP, slowest of 60, ms",
            max(taken),
            note="reported: other work on the machine shows here",
        ),
        Bar("sites(), ms", listed),
    ]
