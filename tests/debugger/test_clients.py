"""Two hundred requests of four clients at once: every answer belongs to its question."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from tests.debugger.running import PATIENCE, Debugger, thread
from twinnet.debugger.start import stop_at_traces

EACH = 50


def client(debugger: Debugger, number: int, start: threading.Barrier, wrong: list[str]) -> None:
    """Questions whose answers only this client can expect, over one connection."""
    connection = HTTPConnection("127.0.0.1", debugger.port, timeout=PATIENCE)

    def ask(text: str, accept: str = "text/plain") -> bytes:
        connection.request("POST", "/", text.encode(), {"X-Token": debugger.token, "Accept": accept})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            wrong.append(f"{text}: {response.status} {body!r}")
        return body

    start.wait(PATIENCE)
    for i in range(EACH):
        match i % 5:
            case 0:
                value = 1000 * number + i
                got = ask(f"mine{number} = {value}\nprint('said', mine{number})\nmine{number} * 2")
                want = f"said {value}\n{2 * value}\n".encode()
            case 1:
                got, want = ask(f"mine{number}"), f"{1000 * number + i - 1}\n".encode()
            case 2:
                site = 10 * number + i % 10
                got = ask(f"cmp('site{site}')").splitlines()[1]
                want = f"max {site + 1} at [0, 0, 0, 0] (network 0, twin {site + 1})".encode()
            case 3:
                site = 10 * number + 3
                found = json.loads(ask(f"sites('site{site}')", "application/json"))["data"]["sites"]
                got, want = [s["max"] for s in found], [site + 1.0]
            case _:
                got = ask(f"total = sum(j * {number} for j in range(200))\ntotal")
                want = f"{number * 19900}\n".encode()
        if got != want:
            wrong.append(f"client {number}, question {i}: {got!r} instead of {want!r}")
    connection.close()


def test_two_hundred_requests_of_four_clients_stay_correct(tmp_path: Path) -> None:
    ours = {f"site{i}": np.zeros((1, 1, 4, 4)) for i in range(50)}
    theirs = {f"site{i}": np.zeros((1, 1, 4, 4)) for i in range(50)}
    for i, array in enumerate(theirs.values()):
        array[0, 0, 0, 0] = i + 1
    wrong: list[str] = []
    with thread(stop_at_traces(ours, theirs), tmp_path) as debugger:
        start = threading.Barrier(4)
        clients = [threading.Thread(target=client, args=(debugger, n, start, wrong)) for n in range(1, 5)]
        for one in clients:
            one.start()
        for one in clients:
            one.join(PATIENCE)
            assert not one.is_alive()
    assert wrong == []
