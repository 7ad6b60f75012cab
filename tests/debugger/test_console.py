"""Text in, answers out: pdb's words, Python in the frame, commands, errors that end nothing."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.debugger.running import Debugger, small, thread
from twinnet.debugger.console import Console, Quit
from twinnet.debugger.stopped import Stopped


@pytest.fixture
def console() -> Console:
    """A console in a frame with variables, two calls deep."""
    apple = 3

    def inner(pear: int) -> Console:
        assert apple and pear
        return Console(small(), sys._getframe(), {"given": 5})

    return inner(4)


def text(console: Console, line: str) -> str:
    reply = console.ask(line)
    assert reply.ok, reply.answer.text
    return reply.answer.text


def error(console: Console, line: str) -> str:
    reply = console.ask(line)
    assert not reply.ok
    return reply.answer.text


def test_values_of_the_frame_and_of_what_was_handed_over(console: Console) -> None:
    assert text(console, "pear + given") == "9"
    assert text(console, "[pear * i for i in range(3)]") == "[0, 4, 8]"
    assert text(console, "(lambda: apple + pear)()") == "7"
    assert text(console, "p apple") == "3"
    assert text(console, "pp {'b': 1, 'a': [apple] * 2}") == "{'a': [3, 3], 'b': 1}"
    assert text(console, "None") == ""
    assert text(console, "np.__name__") == "'numpy'", "globals of the module that is stopped"


def test_statements_of_several_lines_and_what_they_print(console: Console) -> None:
    block = "total = 0\nfor i in range(4):\n    total += i\n    print('at', i)\ntotal"
    assert text(console, block) == "at 0\nat 1\nat 2\nat 3\n6"
    assert text(console, "total") == "6"
    assert text(console, "def twice(x):\n    return 2 * x if x < 100 else twice(x - 1)\n\ntwice(21)") == "42"
    assert text(console, "twice(pear)") == "8"
    assert text(console, "x = 1; y = 2") == ""
    assert "boom" in error(console, "x = 10\nraise ValueError('boom')")
    assert text(console, "x") == "10", "what was assigned before the error stays"


def test_moving_in_the_stack(console: Console) -> None:
    assert "inner()" in text(console, "w").splitlines()[-2]
    assert text(console, "w").count("> ") >= 1
    assert "return Console" in text(console, "l")
    assert "->" in text(console, "l")
    assert "in console" not in error(console, "p not_there")
    up = text(console, "u")
    assert "console()" in up
    assert text(console, "apple") == "3"
    assert "NameError" in error(console, "pear")
    assert "inner()" in text(console, "d 99")
    assert text(console, "pear") == "4"
    assert text(console, "l 1, 2").splitlines() == ['       1  """' + str(__doc__) + '"""', "       2  "]


def test_names_that_look_like_commands_stay_python(console: Console) -> None:
    assert text(console, "p = 2") == ""
    assert text(console, "p + 1") == "3"
    assert text(console, "p == 2") == "True"
    assert text(console, "l = [5, 6]") == ""
    assert text(console, "l[1]") == "6"
    assert text(console, "u = 1; d = 2") == ""
    assert text(console, "u + d") == "3"


def test_an_exclamation_mark_means_the_program_alone() -> None:
    show = "mine"
    console = Console(small(), sys._getframe())
    assert text(console, "!show") == repr(show)
    assert "show(site" in text(console, "show")


def test_commands_by_their_name_alone(console: Console) -> None:
    assert text(console, "worst") == text(console, "worst()")
    assert text(console, "help cmp").startswith("cmp(site, *where, size=8)")
    assert "unknown command 'nothing'" in error(console, "help nothing")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("1 +", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import sys; sys.exit()", "SystemExit"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("raise TimeoutError('own')", "TimeoutError"),
        ("cmp()", "TypeError"),
        ("cmp('nowhere')", "no site 'nowhere'"),
        ("cmp(3)", "second array"),
        ("\x00", "null byte"),
        ("class A:\n  def __repr__(self): raise ValueError('in repr')\nA()", "in repr"),
        ("patch('head', 0)", "come without a network"),
        ("rerun()", "come without a network"),
        ("cause('head')", "come without a network"),
        ("inputs('head')", "come without a network"),
        ("repro()", "come without a network"),
    ],
)
def test_errors_are_text(console: Console, line: str, said: str) -> None:
    assert said in error(console, line)
    assert text(console, "6 * 7") == "42"


def test_a_trace_shows_the_users_lines_only(console: Console) -> None:
    told = error(console, "def f():\n    raise ValueError('deep')\nf()")
    assert told.startswith("Traceback")
    assert "console.py" not in told
    assert told.endswith("ValueError: deep")


def test_quit_is_the_only_way_out(console: Console) -> None:
    for line in ("quit", "q", " quit \n", "c"):
        with pytest.raises(Quit):
            console.ask(line)


def test_long_answers_are_cut(console: Console) -> None:
    told = text(console, "'x' * 10_000_000")
    assert len(told) < 300_000
    assert "characters more" in told


def test_without_a_network_there_is_still_a_prompt() -> None:
    console = Console(Stopped())
    assert text(console, "x = 2") == ""
    assert text(console, "x * 21") == "42"
    assert "no sites" in text(console, "worst")
    assert "nothing to compare" in error(console, "cmp('x')")
    assert text(console, "network is None and twin is None") == "True"
    assert "no frames" in text(console, "w")


@pytest.fixture
def debugger(tmp_path: Path) -> Iterator[Debugger]:
    with thread(folder=tmp_path, handed=np.arange(3)) as found:
        yield found


def test_it_runs_in_the_stopped_thread_and_changes_its_variables(tmp_path: Path) -> None:
    with thread(folder=tmp_path) as debugger:
        name = debugger.text("import threading; threading.current_thread().name")
        assert "twinnet-debugger" not in name
        assert debugger.text("local_of_the_program") == "41"
        assert debugger.text("local_of_the_program += 1; local_of_the_program") == "42"
    said = debugger.said  # type: ignore[attr-defined]
    assert said.get(timeout=60) == "debugger ended; the program continues"
    assert said.get(timeout=60) == "the program went on with 42"


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(debugger: Debugger) -> None:
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Token: {debugger.token}\r\n"
    with socket.create_connection(("127.0.0.1", debugger.port), timeout=60) as bare:
        bare.sendall(f"{head}Content-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode())
        assert bare.recv(100).startswith(b"HTTP/1.1 100 Continue")
        bare.sendall(b"6 * 7")
        said = b""
        while more := bare.recv(1000):
            said += more
        assert said.endswith(b"42\n")


def test_forms_of_the_answer(debugger: Debugger) -> None:
    plain = debugger.ask("cmp('conv.out')")
    assert plain.headers["content-type"].startswith("text/plain")
    answered = debugger.ask("cmp('conv.out')", "application/json")
    assert answered.data["ok"] is True
    assert answered.data["text"] == plain.text.rstrip("\n")
    assert answered.data["data"]["index"] == [0, 1, 4, 5]
    assert debugger.data("float('nan')") == "NaN"
    assert debugger.data("handed.sum().item()") == 3
    failed = debugger.ask("1 / 0", "application/json")
    assert (failed.status, failed.data["ok"]) == (400, False)
    assert debugger.ask("show('conv.out')", "image/png").body.startswith(b"\x89PNG")
    assert debugger.ask("cmp('conv.out')", "image/png").body.startswith(b"\x89PNG")
    assert debugger.ask("6 * 7", "image/png").status == 406
