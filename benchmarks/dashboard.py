"""The dashboard with a thousand sessions and a million cases: how long its pages take, on SQLite."""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import Bar
from twinnet.dashboard.database import open_database
from twinnet.dashboard.server import Service
from twinnet.dashboard.settings import Settings
from twinnet.dashboard.store import open_store

__all__ = ["bars", "generate", "page_times"]

_SESSIONS, _MODELS, _ENGINES, _LAYERS, _PAIRS = 1000, 20, 5, 9, 50
_TRIES = 7


def bars() -> list[Bar]:
    """All promises."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        began = time.perf_counter()
        generate(folder / "a.db")
        made = time.perf_counter() - began
        size = (folder / "a.db").stat().st_size / (1 << 20)
        times = dict(page_times(folder))
    slowest = max(times, key=lambda path: times[path])
    rows = _SESSIONS * _MODELS * _ENGINES * (1 + _LAYERS)
    note = f"{slowest}; {rows:,} cases, {size:.0f} MiB, made in {made:.0f} s"
    return [
        Bar("slowest page, ms", times[slowest], 300.0, note=note),
        *(Bar(f"{path}, ms", ms) for path, ms in sorted(times.items(), key=lambda item: -item[1])),
    ]


def generate(file: Path, sessions: int = _SESSIONS) -> None:
    """Fill a database with made-up rows, past everything that a real upload checks."""
    open_database(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA synchronous=OFF")
        series = [
            (f"model-{m:02}", f"Conv_{layer}" if layer else "", f"engine{e}-default")
            for m in range(_MODELS)
            for e in range(_ENGINES)
            for layer in range(_LAYERS + 1)
        ]
        database.executemany(
            "INSERT INTO series (id, key, model, layer, engine, random) VALUES (?, ?, ?, ?, ?, 0)",
            ((i + 1, f"s{i}", *one) for i, one in enumerate(series)),
        )
        database.execute("INSERT INTO complaint VALUES (1, 'c1', 'FAIL', 'output differs by N')")
        database.executemany(
            "INSERT INTO place VALUES (?, ?, ?, ?, '')",
            ((i + 1, f"p{i}", f"t{i}", f"features.{i} conv2d") for i in range(_PAIRS)),
        )
        for number in range(1, sessions + 1):
            database.execute(
                "INSERT INTO session VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                _session(number, series),
            )
            database.executemany(
                "INSERT INTO run VALUES (?,?,?,?,'engine',?,'',?,?,'strong','','',1.0,?,1e-7,?,?,'',?)",
                _runs(number, series),
            )
            database.executemany(
                "INSERT INTO layer VALUES (?,?,?,'pass',?,4.0,1e-7,1e-4)", _layers(number, series)
            )
    database.close()


def _session(number: int, series: list[tuple[str, str, str]]) -> tuple[object, ...]:
    started = 1.7e9 + number * 3600
    bad = len(series) // 100
    engines = ", ".join(sorted({engine for _, _, engine in series}))
    branch = "main" if number % 3 else f"branch-{number % 40}"
    return (
        number,
        f"k{number}",
        "suite",
        "",
        branch,
        f"{number:040x}",
        "anna",
        engines,
        "[]",
        json.dumps({"python": "3.11"}),
        started,
        started + 900,
        started,
        len(series),
        len(series) - bad,
        bad,
        0,
        0,
        0,
        0,
    )


def _runs(number: int, series: list[tuple[str, str, str]]) -> Iterator[tuple[object, ...]]:
    for i, (model, layer, engine) in enumerate(series):
        bad = (i + number) % 100 == 0
        ratio = 5000.0 if bad else 1.0 + (i * 7 + number * 13) % 100 / 100
        name = f"{model}_{layer or 'full'}-{engine}"
        message = f"output differs by {number}" if bad else ""
        yield (
            number * len(series) + i,
            number,
            i + 1,
            name,
            "FAIL" if bad else "PASS",
            message,
            1 if bad else None,
            ratio,
            1e-3 * (1 + (i + number) % 7 / 50),
            "features.3 conv2d" if bad else "",
            f"d{i}",
        )


def _layers(number: int, series: list[tuple[str, str, str]]) -> Iterator[tuple[object, ...]]:
    whole = [i for i, (_, layer, _) in enumerate(series) if not layer][:20]
    for i in whole:
        for place in range(_PAIRS):
            yield (number * len(series) + i, place, place + 1, 0.5 + (place * 3 + number) % 10 / 10)


def page_times(folder: Path) -> Iterator[tuple[str, float]]:
    """Milliseconds of each page: the median of several requests, after one that does not count.

    They are those of the processor, for client and server together: what a page takes on a machine that does nothing
    else, however busy this one is.
    """
    service = Service(
        open_database(f"sqlite:///{folder}/a.db"), open_store(str(folder / "files")), Settings(port=0)
    )
    token = service.tokens.add("bench", "read")
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    last = _SESSIONS
    run = last * _MODELS * _ENGINES * (1 + _LAYERS)
    paths = (
        *(
            "/",
            "/?q=anna&branch=main",
            "/?bad=1&before=500",
            f"/sessions/{last}",
            f"/sessions/{last}?against=3",
        ),
        *(
            f"/sessions/{last}/cases",
            f"/sessions/{last}/cases?verdict=FAIL",
            f"/cases/{run}",
            "/models",
            "/models/model-03",
        ),
        *(
            f"/models/model-00?session={last}&against={last - 1}",
            "/trends?model=model-00",
            f"/trends?run={run}&place=3",
        ),
        *("/trends?model=model-05&branch=main", f"/compare?a={last}&b=1&all=1", "/compare"),
        *(f"/compare?a={last}&engine=engine0-default&other=engine1-default", "/api/v1/sessions?limit=200"),
        *(
            "/api/v1/runs?limit=200&model=model-07",
            "/api/v1/runs?verdict=FAIL&limit=200",
            f"/api/v1/compare?session={last}",
        ),
    )
    try:
        for path in paths:
            taken = []
            for _ in range(_TRIES + 1):
                began = time.process_time()
                request = urllib.request.Request(
                    service.url + path, headers={"Authorization": f"Bearer {token}"}
                )
                with urllib.request.urlopen(request, timeout=120) as answer:
                    answer.read()
                taken.append((time.process_time() - began) * 1000)
            yield path, statistics.median(taken[1:])
    finally:
        service.stop()
        thread.join(30)
