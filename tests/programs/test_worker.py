"""A child that answers: errors, crashes and silence are told apart, and nothing is left behind."""

from __future__ import annotations

import sys

import pytest

from twinnet.errors import EngineError
from twinnet.programs.worker import Worker

CHILD = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "refuse":
        answer = {"error": "no such kernel\\nmore words"}
    elif asked["do"] == "abort":
        print("out of cheese", file=sys.stderr, flush=True)
        os.abort()
    elif asked["do"] == "sleep":
        time.sleep(600)
    else:
        answer = {"length": len(asked.get("text", ""))}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def worker() -> object:
    with Worker([sys.executable, "-c", CHILD], "child") as made:
        yield made


def test_answers_come_one_by_one(worker: Worker) -> None:
    assert [worker.ask({"do": "count", "text": "x" * n}, "count")["length"] for n in (0, 3, 200_000)] == [
        0,
        3,
        200_000,
    ]


def test_an_error_leaves_it_alive(worker: Worker) -> None:
    with pytest.raises(EngineError, match="child could not load: no such kernel") as caught:
        worker.ask({"do": "refuse"}, "load")
    assert "more words" in caught.value.log
    assert worker.ask({"do": "count"}, "count") == {"length": 0}


def test_a_crash_keeps_the_last_words(worker: Worker) -> None:
    with pytest.raises(EngineError, match="child could not run: it died of SIGABRT; out of cheese"):
        worker.ask({"do": "abort"}, "run")
    with pytest.raises(EngineError):
        worker.ask({"do": "count"}, "count")


def test_silence_ends_with_the_time_limit(worker: Worker) -> None:
    with pytest.raises(EngineError, match="within the time limit of 1 s"):
        worker.ask({"do": "sleep"}, "run", limit=1)
    assert worker._child.poll() is not None


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(EngineError, match="cannot be started"):
        Worker(["/no/such/python"], "child")
