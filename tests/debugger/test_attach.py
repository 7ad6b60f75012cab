"""The prompt: lines in, answers out, history and completion on a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debugger.running import PATIENCE, Debugger, thread

ATTACH = [sys.executable, "-m", "twinnet.cli.main", "attach"]


@pytest.fixture(scope="module")
def debugger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debugger]:
    with thread(folder=tmp_path_factory.mktemp("attach")) as found:
        yield found


def run(*words: str, said: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ATTACH, *words], input=said, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_commands_and_scripts(debugger: Debugger) -> None:
    done = run(str(debugger.info), "-e", "6 * 7", "-e", "cmp('head', size=1)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42\nhead   1x4 float64")
    script = "for i in range(3):\n    print('line', i)\n\np 1 + 1\n1 / 0\n"
    done = run(debugger.url, said=script, TWINNET_TOKEN=debugger.token)
    assert done.returncode == 1
    assert done.stdout.startswith("line 0\nline 1\nline 2\n2\nTraceback")


def test_what_cannot_be_reached_is_said_in_a_line(debugger: Debugger, tmp_path: Path) -> None:
    wrong = run(debugger.url, "-e", "1", TWINNET_TOKEN="guess")
    assert (wrong.returncode, "does not accept this token" in wrong.stderr) == (2, True), wrong.stderr
    (tmp_path / "other.env").write_text("nothing here\n")
    other = run(str(tmp_path / "other.env"))
    assert (other.returncode, "was not written by a debugger" in other.stderr) == (2, True)
    assert run(debugger.url, TWINNET_TOKEN="").returncode == 2
    gone = run("http://127.0.0.1:1", "-e", "1", TWINNET_TOKEN="x")
    assert (gone.returncode, "does not answer" in gone.stderr) == (3, True), gone.stderr
    assert all("Traceback" not in d.stderr for d in (wrong, other, gone))


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.hand, other = pty.openpty()
        self.process = subprocess.Popen(
            words, stdin=other, stdout=other, stderr=other, env=environment, close_fds=True
        )
        os.close(other)
        self.seen = b""

    def type(self, text: str) -> None:
        os.write(self.hand, text.encode())

    def until(self, text: str) -> None:
        """Read until the text has come, and forget what came up to it."""
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen.decode(errors="replace")
            if select.select([self.hand], [], [], 1.0)[0]:
                try:
                    self.seen += os.read(self.hand, 4096)
                except OSError:
                    raise AssertionError(
                        f"{text!r} never came: {self.seen.decode(errors='replace')}"
                    ) from None
        self.seen = self.seen.partition(text.encode())[2]


def test_history_and_completion_on_a_terminal(debugger: Debugger, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    terminal = Terminal([*ATTACH, str(debugger.info)], environment)
    terminal.until("(twin) ")
    terminal.type("cmp('.con\t")
    terminal.until("v.out")
    terminal.type(")\n")  # the quote was closed by the completion
    terminal.until("max 3 at [0, 1, 4, 5]")
    terminal.until("(twin) ")
    terminal.type("for i in range(2):\n")
    terminal.until("... ")
    terminal.type("    print('got', i + 10)\n")
    terminal.until("... ")
    terminal.type("\n")
    terminal.until("got 11")
    terminal.until("(twin) ")
    terminal.type("1 / 0\n")
    terminal.until("ZeroDivisionError")
    terminal.until("(twin) ")
    terminal.type("\x04")
    assert terminal.process.wait(PATIENCE) == 1, "the last answer was an error"
    os.close(terminal.hand)
    history = tmp_path / "twinnet" / "attach-history"
    assert "cmp('.conv.out')" in history.read_text()
    again = Terminal([*ATTACH, str(debugger.info)], environment)
    again.until("(twin) ")
    again.type("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\n")
    again.until("max 3 at [0, 1, 4, 5]")
    again.until("(twin) ")
    again.type("\x04")
    assert again.process.wait(PATIENCE) == 0
    os.close(again.hand)
