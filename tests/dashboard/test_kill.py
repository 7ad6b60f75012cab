"""kill -9 during fifty uploads: what was acknowledged is there and whole, nothing is half there."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.dashboard.bundles import bundle, case, result_json
from tests.dashboard.conftest import new_database
from tests.dashboard.places import Running, started
from twinnet.dashboard.database import open_database
from twinnet.dashboard.tokens import Tokens

CLIENTS, CASES = 50, 3


def test_kill_during_fifty_uploads(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = new_database(kind, tmp_path, request)
    opened = open_database(url)
    token = Tokens(opened).add("kill", "admin")
    opened.close()
    files = {"result.json": result_json(), "noise.bin": os.urandom(200_000)}
    sent = {
        i: bundle(f"kill{i}", [case(f"m{j}", "FAIL") for j in range(CASES)], files) for i in range(CLIENTS)
    }
    acknowledged: dict[int, list[str]] = {}
    enough = threading.Event()
    with started(tmp_path, url) as (process, address):
        dashboard = Running(address, token)

        def send(i: int) -> None:
            try:
                status, told = dashboard.post(sent[i])
            except (OSError, ValueError):
                return
            if status == 201:
                acknowledged[i] = [c["name"] for c in told["cases"]]
                if len(acknowledged) >= 8:
                    enough.set()

        threads = [threading.Thread(target=send, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        assert enough.wait(240)
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert 8 <= len(acknowledged) < CLIENTS
    with started(tmp_path, url) as (_, address):
        dashboard = Running(address, token)
        there = {s["key"]: s for s in dashboard.json("/sessions?limit=200")["items"]}
        for i in acknowledged:
            assert there[f"kill{i}"]["total"] == CASES, f"upload {i} was acknowledged"
        for session in there.values():
            assert session["total"] == CASES, "a session is half there"
            runs = dashboard.json(f"/sessions/{session['id']}/runs")["items"]
            assert len(runs) == CASES
            for run in runs:
                assert len(dashboard.json(f"/runs/{run['id']}/layers")["items"]) == 40
            listed = dashboard.json(f"/runs/{runs[0]['id']}/files")["items"]
            assert {f["path"] for f in listed} == set(files)
            for file in listed:
                body = dashboard.ask(f"/api/v1/runs/{runs[0]['id']}/files/{file['path']}")[1]
                assert hashlib.sha256(body).hexdigest() == file["sha256"]
        # What was lost can be sent again, and what was not changes nothing.
        for i in (min(acknowledged), min(set(sent) - set(acknowledged))):
            assert dashboard.post(sent[i])[0] in (200, 201)
    if kind == "sqlite":
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.close()


def test_a_polite_stop_finishes_what_is_being_answered(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    opened = open_database(url)
    token = Tokens(opened).add("stop", "admin")
    opened.close()
    answers: list[int] = []
    with started(tmp_path, url) as (process, address):
        dashboard = Running(address, token)
        assert dashboard.ask("/health")[0] == 200
        big = bundle("big", [case(f"m{j}", "FAIL") for j in range(30)], {"result.json": result_json()})
        thread = threading.Thread(target=lambda: answers.append(dashboard.post(big)[0]))
        thread.start()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert process.wait(60) == 0
    assert answers == [201]


def test_ctrl_c_stops_it_right_after_the_greeting(tmp_path: Path) -> None:
    with started(tmp_path, f"sqlite:///{tmp_path}/a.db") as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


EARLY = """
import os, signal
from twinnet.dashboard import server
from twinnet.dashboard.settings import Settings

server._warm = lambda: os.kill(os.getpid(), signal.SIGINT)
server.open_service("sqlite:///b.db", "b", Settings(port=0)).run(lambda: print("ready"))
print("stopped")
"""


def test_ctrl_c_stops_it_while_modules_are_loaded(tmp_path: Path) -> None:
    """In a process of its own: an engine that ran in this one may have left a stack for signals that is gone."""
    done = subprocess.run(
        [sys.executable, "-c", EARLY], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
