"""Nothing half, nothing left: whatever the moment a command is killed, and whatever runs beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.trust.running import start
from tests.trust.test_codes import model

PATIENCE = 120.0

DRIVER = """
import os, signal, sys
from pathlib import Path
place, moment = sys.argv[1], int(sys.argv[2])
calls = 0
def counted(function):
    def call(*given, **more):
        global calls
        calls += 1
        if calls == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **more)
    return call
def arm():
    # Every change of a file's name or presence is a moment to be killed at.
    for owner, name in ((os, "replace"), (os, "rename"), (os, "unlink"), (os, "rmdir"), (Path, "replace"),
                        (Path, "unlink"), (Path, "mkdir")):
        setattr(owner, name, counted(getattr(owner, name)))
"""


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_killed_at_any_moment_a_run_is_the_old_one_the_new_one_or_none(tmp_path: Path) -> None:
    code = DRIVER + textwrap.dedent("""
        import twinnet
        from tests.report import examples
        from twinnet.report.files import run_written, write_run
        from twinnet.report.show import save_tensors
        arm()
        with run_written(Path(place)) as stage:
            save_tensors(stage, examples.tensors())
            write_run(examples.error(), stage)
        print("whole")
    """)
    from tests.report import examples
    from twinnet.report.files import run_written, write_run
    from twinnet.result import Result

    run = tmp_path / "run"
    seen = set()
    for moment in (1, 8, 24, 36, 40, 44, 48, 52, 56, 60, 70, 200):
        with run_written(run) as stage:
            assert stage is not None
            write_run(examples.passing(), stage)
        (run / "notes.txt").write_text("mine")
        done = subprocess.run(
            [sys.executable, "-c", code, str(run), str(moment)], capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        assert (run / "notes.txt").read_text() == "mine"
        if not (run / "result.json").exists():
            seen.add("none")
            continue
        loaded = Result.load(run)
        assert isinstance(loaded, Result)
        seen.add(loaded.verdict)
        report = (run / "summary.md").read_text()
        assert (loaded.verdict in report) and (run / "traces").exists() == (loaded.verdict == "ERROR")
    assert seen >= {"PASS", "ERROR"}, seen
    assert not [p for p in run.rglob("*") if p.name.endswith(".part")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    onnx.save(model(), tmp_path / "net.onnx")
    (tmp_path / "slow.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "def twin(x):\n    Path('begun').touch()\n    time.sleep(600)\n    return x\n"
    )
    return tmp_path


def test_a_second_run_into_the_same_folder_is_refused(place: Path) -> None:
    first = start(place, "check", "net.onnx", "--twin", "callable:slow.py:twin", "--out", "run")
    try:
        until((place / "begun").exists, "the first run begins")
        second = start(place, "check", "net.onnx", "--out", "run", "-q")
        _, err = second.communicate(timeout=PATIENCE)
        assert second.returncode == 3 and "another run is writing into run" in err
    finally:
        first.kill()
        first.communicate()
    assert not (place / "run/result.json").exists()
    third = start(place, "check", "net.onnx", "--out", "run", "-q")
    assert third.communicate(timeout=PATIENCE)[0] == "PASS\n"
    assert json.loads((place / "run/result.json").read_text())["verdict"] == "PASS"
    assert not (place / "run/.writing").exists()


def test_programs_end_with_a_command_that_is_killed(place: Path) -> None:
    (place / "program.py").write_text(
        "import os, subprocess, sys, time\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pids.new', 'w').write(f'{os.getpid()} {inner.pid}')\n"
        "os.rename('pids.new', 'pids')\n"
        "time.sleep(600)\n"
    )
    code = (
        "import sys\nfrom pathlib import Path\nfrom twinnet.programs.start import Task, start_program\n"
        "start_program([sys.executable, 'program.py'], Task('it', 'run'))\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code], cwd=place)
    until((place / "pids").exists, "the program runs")
    pids = [int(word) for word in (place / "pids").read_text().split()]
    assert all(map(alive, pids))
    started.kill()
    started.wait()
    until(lambda: not any(map(alive, pids)), "the program and what it started end")


def test_a_worker_ends_with_a_command_that_is_killed(place: Path) -> None:
    code = (
        "import sys, time\nfrom twinnet.programs.worker import Worker\n"
        "busy = 'import os; print(\\'{\"pid\": %d}\\' % os.getpid(), flush=True)\\nwhile True: pass'\n"
        "worker = Worker([sys.executable, '-c', busy], 'busy')\n"
        "print(worker.ask({}, 'start')['pid'], flush=True)\ntime.sleep(600)\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code], cwd=place, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    pid = int(started.stdout.readline())
    assert alive(pid)
    started.kill()
    started.communicate()
    until(lambda: not alive(pid), "the worker ends")


def test_a_killed_lut_run_leaves_no_picture_for_the_next(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (400, 600, 3), np.uint8)
    (tmp_path / "in").mkdir()
    for number in range(6):
        Image.fromarray(pixels).save(tmp_path / "in" / f"{number}.png")
    words = ("lut", "run", "in", "-o", "out", "--task", "deblock")
    started = start(tmp_path, *words)
    out = tmp_path / "out"
    until(lambda: started.poll() is not None or (out.is_dir() and any(out.iterdir())), "it writes")
    started.kill()
    err = started.communicate()[1]
    from twinnet.lut.batch import jobs

    assert out.is_dir(), err
    for path in out.iterdir():
        if path.suffix == ".png":
            Image.open(path).load()  # whole
        else:
            assert path.name.startswith(".") and path.suffix == ".part"
    whole = [p for p in out.iterdir() if p.suffix == ".png"]
    if whole:
        assert [a for a, _ in jobs(out, tmp_path / "next")] == sorted(whole)
