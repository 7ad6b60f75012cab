"""What is printed on terminals of all kinds, and without one: no stray codes, no line wider than the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from twinnet.result import Result

ESCAPE = b"\x1b"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Path:
    """A folder with a run that failed, and with the command."""
    import torch

    import twinnet
    from tests.test_newcomers import Detector, _wrong

    folder = tmp_path_factory.mktemp("terminals")
    result = twinnet.check(Detector(), torch.randn(1, 3, 12, 10), _wrong(), out=folder / "run")
    assert isinstance(result, Result) and result.verdict == "FAIL"
    (folder / "twinnet").symlink_to(commands / "twinnet")
    return folder


def _environment(**more: str) -> dict[str, str]:
    kept = {
        k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "LC_ALL", "LANG", "LC_CTYPE")
    }
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **more}


def _typed(place: Path, columns: int, *words: str, **more: str) -> bytes:
    """What a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = ["./twinnet", *words]
    with subprocess.Popen(
        command, cwd=place, env=_environment(**more), stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            said += part
    os.close(ours)
    return said.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("columns", [80, 200])
def test_lines_fit_the_terminal(place: Path, columns: int) -> None:
    for words in (["show", "run"], ["show", "run", "boxes"]):
        said = _typed(place, columns, *words, NO_COLOR="1").decode()
        assert "boxes" in said and max(map(len, said.splitlines())) <= columns


def test_colours_only_where_they_are_wanted(place: Path) -> None:
    assert ESCAPE in _typed(place, 80, "show", "run")
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert ESCAPE not in _typed(place, 80, "show", "run", **more)


def test_blocks_only_where_they_can_be_shown(place: Path) -> None:
    assert "\u2588" in _typed(place, 80, "show", "run", "boxes").decode()
    for more in ({"LC_ALL": "C"}, {"TERM": "dumb"}):
        assert _typed(place, 80, "show", "run", "boxes", **more).isascii()
    assert _typed(place, 80, "show", "run", "boxes", "--ascii").isascii()


@pytest.mark.parametrize(
    "words", [["show", "run"], ["show", "run", "boxes"], ["engines"], ["check", "--help"]]
)
def test_pipes_get_plain_text(place: Path, words: list[str]) -> None:
    done = subprocess.run(["./twinnet", *words], cwd=place, env=_environment(LC_ALL="C"), capture_output=True)
    assert done.returncode == 0 and done.stdout.isascii() and ESCAPE not in done.stdout
    assert done.stderr == b""
