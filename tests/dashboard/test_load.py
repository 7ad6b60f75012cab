"""Twenty clients upload and twenty browse for a minute: no error. The figures are printed."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import Counter

import pytest

from tests.dashboard.bundles import bundle, case, result_json
from tests.dashboard.places import Running

SECONDS = float(os.environ.get("TWINNET_LOAD_SECONDS", "60"))
PAGES = (
    "/",
    "/sessions/1",
    "/cases/1",
    "/models",
    "/models/m1",
    "/trends?model=m1",
    "/compare",
    "/api/v1/sessions",
)


@pytest.mark.slow
def test_twenty_upload_and_twenty_browse(
    dashboard: Running, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"result.json": result_json(), "noise.bin": b"x" * 20_000}
    dashboard.post(bundle("first", [case("m1", "FAIL")], files))
    ends = time.monotonic() + SECONDS
    statuses: Counter[int] = Counter()
    taken: dict[str, list[float]] = {"upload": [], "browse": []}

    def upload(who: int) -> None:
        number = 0
        while time.monotonic() < ends:
            number += 1
            sent = bundle(f"load{who}-{number}", [case(f"m{number % 5}", "FAIL"), case("n")], files)
            began = time.monotonic()
            statuses[dashboard.post(sent)[0]] += 1
            taken["upload"].append(time.monotonic() - began)

    def browse(who: int) -> None:
        number = who
        while time.monotonic() < ends:
            number += 1
            began = time.monotonic()
            statuses[dashboard.ask(PAGES[number % len(PAGES)])[0]] += 1
            taken["browse"].append(time.monotonic() - began)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(20) for work in (upload, browse)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with capsys.disabled():
        for what, times in taken.items():
            middle, high = statistics.median(times), statistics.quantiles(times, n=20)[-1]
            print(
                f"\n{kind} {what}: {len(times)} in {SECONDS:.0f} s, median {middle:.2f} s, 95 % {high:.2f} s"
            )
    assert set(statuses) <= {200, 201}, statuses
    assert len(taken["upload"]) > 40 and len(taken["browse"]) > 40
