"""The debugger's door: strangers take no place, a full house says so, a request means one thing only."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

import twinnet.debugger.server as server
from tests.debugger.running import PATIENCE, Debugger, thread


@pytest.fixture
def debugger(tmp_path: Path) -> Iterator[Debugger]:
    with thread(folder=tmp_path) as found:
        yield found


def status(debugger: Debugger, *lines: str, body: str = "help") -> int:
    """The status of a request that is sent exactly so."""
    with socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE) as line:
        line.sendall("\r\n".join(["POST / HTTP/1.1", *lines, "", body]).encode())
        answer = line.makefile("rb").readline().split()
    return int(answer[1])


def test_idle_strangers_take_no_place(debugger: Debugger) -> None:
    with ExitStack() as stack:
        for number in range(3 * server._STRANGERS):
            idle = socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE)
            stack.enter_context(idle)
            if number % 2:
                idle.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n")  # half a request
        answered = debugger.send("POST", "/", "help", {"X-Token": debugger.token})
        assert answered.status == 200


def test_a_full_house_is_503(debugger: Debugger, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        for _ in range(server._CONNECTIONS):
            guest = HTTPConnection("127.0.0.1", debugger.port, timeout=PATIENCE)
            stack.callback(guest.close)
            guest.request("POST", "/", "help", {"X-Token": debugger.token})
            answer = guest.getresponse()
            assert answer.read() and answer.status == 200
        late = debugger.send("POST", "/", "help", {"X-Token": debugger.token})
        assert late.status == 503 and "connections" in late.text
        assert debugger.send("POST", "/", "help").status == 401
    for _ in range(200):  # the guests leave: their places are free again
        if debugger.send("POST", "/", "help", {"X-Token": debugger.token}).status == 200:
            return
    raise AssertionError("the places were not given back")


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.example",
        "[::1]evil.example:80",
        "[127.0.0.1]@evil.example",
        "localhost:80.evil.example",
        "localhost:80:90",
        "localhost:x",
        "localhost:99999",
        "localhost/evil.example",
        "evil.example#localhost",
        "me@localhost",
        "localhost,evil.example",
        "localhost evil.example",
        "fe80::1%25evil",
        "",
    ],
)
def test_a_host_is_matched_whole(debugger: Debugger, host: str) -> None:
    token = f"X-Token: {debugger.token}"
    assert status(debugger, f"Host: {host}", token, "Content-Length: 4") == 403


def test_hosts_that_are_right(debugger: Debugger) -> None:
    token = f"X-Token: {debugger.token}"
    for host in ("localhost", "LOCALHOST:1", f"127.0.0.1:{debugger.port}", "[::1]", "[::1]:8765"):
        assert status(debugger, f"Host: {host}", token, "Content-Length: 4") == 200


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 4", "Content-Length: 9"),
        ("Content-Length: 4", "Content-Length: 4"),
        ("Content-Length: 4", "Host: evil.example"),
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
    ],
)
def test_a_request_means_one_thing(debugger: Debugger, lines: tuple[str, ...]) -> None:
    assert status(debugger, "Host: localhost", f"X-Token: {debugger.token}", *lines) in (400, 411)


@pytest.mark.parametrize("length", ["4, 4", "+4", "-4", "0x4", "٤", ""])
def test_a_length_is_a_number(debugger: Debugger, length: str) -> None:
    token = f"X-Token: {debugger.token}"
    assert status(debugger, "Host: localhost", token, f"Content-Length: {length}") == 411
