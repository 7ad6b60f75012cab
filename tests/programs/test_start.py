"""Programs of an engine: what they say is kept, whatever becomes of them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from twinnet.errors import EngineError
from twinnet.programs.start import Finished, Task, last_words, start_program


def _python(code: str, limit: float | None = None, folder: Path | None = None) -> Finished:
    return start_program([sys.executable, "-c", code], Task("tool", "do it", limit), folder=folder)


def test_what_a_program_prints_is_returned(tmp_path: Path) -> None:
    done = _python("import sys, os; print(os.getcwd()); print('log', file=sys.stderr)", folder=tmp_path)
    assert done.out == f"{tmp_path}\n" and done.log == "log\n"


def test_an_exit_code_is_an_engine_error_with_the_line_that_says_why() -> None:
    with pytest.raises(EngineError, match="tool could not do it: fatal error: no kernel") as caught:
        _python("print('start'); import sys; print('fatal error: no kernel', file=sys.stderr); sys.exit(4)")
    assert caught.value.stage == "do it" and "start" in caught.value.log and caught.value.exit_code == 3


def test_a_crash_names_its_signal_and_keeps_the_last_words() -> None:
    with pytest.raises(EngineError, match="died of SIGABRT; on the brink") as caught:
        _python("import os, sys; print('on the brink', file=sys.stderr, flush=True); os.abort()")
    assert "on the brink" in caught.value.log


def test_a_silent_end_says_its_exit_code() -> None:
    with pytest.raises(EngineError, match="it ended with exit code 3"):
        _python("raise SystemExit(3)")


def test_a_time_limit_stops_the_program_and_what_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    inner = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with pytest.raises(EngineError, match="within the time limit of 2 s") as caught:
        _python(code, limit=2)
    assert "--time-limit" in str(caught.value)
    if pid.exists():  # on a very slow machine the inner one may not have come that far
        for _ in range(600):  # it is killed at once, and gone when somebody has buried it
            if _ended(int(pid.read_text())):
                return
            time.sleep(0.1)
        pytest.fail("what the program had started still runs")


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(EngineError, match="cannot be started"):
        start_program(["/no/such/program"], Task("tool", "do it"))


def test_arguments_are_no_shell_text(tmp_path: Path) -> None:
    target = tmp_path / "made"
    code = "import sys; print(sys.argv[1])"
    line = [sys.executable, "-c", code, f"; touch {target}; $(touch {target})"]
    done = start_program(line, Task("tool", "print"))
    assert done.out.startswith("; touch") and not target.exists()


def test_long_logs_end_with_their_end() -> None:
    text = "\n".join(f"line {i} " + "x" * 600 for i in range(1000))
    kept = last_words(text)
    assert kept.splitlines()[-1].startswith("line 999 ") and len(kept) <= 4000
    told = last_words("\n".join(["tool: error: the reason", *text.splitlines()]))
    assert told.startswith("tool: error: the reason\n") and told.splitlines()[-1].startswith("line 999 ")
    assert len(told) <= 4100
    assert last_words("a\nerror: b\nc") == "a\nerror: b\nc"


def test_what_a_program_prints_is_shown_as_it_comes_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print('compiling'); print('a warning', file=sys.stderr)"
    start_program([sys.executable, "-c", code], Task("python", "count"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TWINNET_SHOW_PROGRAMS", "1")
    done = start_program([sys.executable, "-c", code], Task("python", "count"))
    assert done.out == "compiling\n"
    assert set(capsys.readouterr().err.splitlines()) == {"compiling", "a warning"}
