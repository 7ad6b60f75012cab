"""Files and folders are whole or absent, and nothing is left of a process that was killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from twinnet.errors import EngineError, UsageError
from twinnet.files import atomic_write, sweep, whole_file, whole_folder
from twinnet.scratch import new_scratch, scratch_folder

OLD = time.time() - 3600


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that says "ready" when it has come to the point."""
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    return started


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = atomic_write(tmp_path / "a.bin", b"old")
    with pytest.raises(RuntimeError), whole_file(path) as file:
        file.write(b"half")
        raise RuntimeError("power cut")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_full_disk_is_said_plainly(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineError, match=r"cannot write .*a\.bin: No space left") as caught,
        whole_file(tmp_path / "a.bin", durable=True),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.exit_code == 3 and not list(tmp_path.iterdir())


def test_a_path_through_a_file_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError):
        atomic_write(tmp_path / "file" / "a.bin", b"x")


def test_a_killed_writer_leaves_a_hidden_part_that_is_swept(tmp_path: Path) -> None:
    code = """
        import sys, time
        from twinnet.files import whole_file
        with whole_file(sys.argv[1]) as file:
            file.write(b"half"); file.flush()
            print("ready", flush=True)
            time.sleep(60)
    """
    writer = child(code, tmp_path / "a.png")
    (part,) = tmp_path.iterdir()
    os.utime(part, (OLD, OLD))
    sweep(tmp_path)
    assert part.exists(), "its writer is alive"
    kill(writer)
    assert part.name.startswith(".") and part.suffix == ".part"
    sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_young_part_is_left_alone(tmp_path: Path) -> None:
    part = tmp_path / ".a.png.999999999.part"
    part.write_bytes(b"")
    sweep(tmp_path)
    assert part.exists(), "its writer may be in another container"


def make(folder: Path, **files: str) -> None:
    with whole_folder(folder, last="result.json", ours=("result.json", "traces", "seeds")) as stage:
        for name, text in files.items():
            atomic_write(stage / name.replace("__", "/").replace("_", "."), text.encode())


def names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "a"
    make(out, result_json="old", traces__x="old", traces__y="old")
    (out / "notes.txt").write_text("mine")
    make(out, result_json="new", traces__x="new")
    assert names(out) == {"result.json", "traces/x", "notes.txt"}
    assert (out / "traces/x").read_text() == (out / "result.json").read_text() == "new"


def test_a_failure_changes_nothing_and_leaves_no_folders(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "a" / "b", last="x", ours=()) as stage:
        (stage / "x").write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    code = """
        import sys, time
        from twinnet.files import whole_folder
        with whole_folder(sys.argv[1], last="result.json", ours=()) as stage:
            (stage / "traces").write_text("half")
            print("ready", flush=True)
            time.sleep(60)
    """
    out = tmp_path / "a"
    make(out, result_json="old")
    first = child(code, out)
    with pytest.raises(EngineError, match="another run is writing into"):
        make(out, result_json="second")
    kill(first)
    assert (out / "result.json").read_text() == "old"
    make(out, result_json="third")
    assert names(out) == {"result.json"} and (out / "result.json").read_text() == "third"


def test_killed_while_it_moves_no_folder_looks_complete(tmp_path: Path) -> None:
    code = """
        import sys, time
        from pathlib import Path
        from twinnet.files import whole_folder
        move = Path.replace
        def slow(self, target):
            if self.name == sys.argv[2]:
                print("ready", flush=True)
                time.sleep(60)
            return move(self, target)
        Path.replace = slow
        with whole_folder(sys.argv[1], last="result.json", ours=("traces", "seeds")) as stage:
            for name in ("result.json", "seeds", "traces"):
                (stage / name).write_text("new")
    """
    out = tmp_path / "a"
    for where in ("seeds", "traces", "result.json"):
        make(out, result_json="old", traces="old")
        kill(child(code, out, where))
        assert not (out / "result.json").exists()
        make(out, result_json="again")
        assert names(out) == {"result.json"}


def test_scratch_goes_with_its_block_and_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        import sys, tempfile, time
        tempfile.tempdir = sys.argv[1]
        from twinnet.scratch import new_scratch
        (new_scratch("test") / "data").write_text("x")
        print("ready", flush=True)
        time.sleep(float(sys.argv[2]))
    """
    ended = child(code, tmp_path, 0)
    ended.communicate()
    assert not list(tmp_path.iterdir())
    killed, alive = child(code, tmp_path, 60), child(code, tmp_path, 60)
    kill(killed)
    for home in tmp_path.iterdir():
        os.utime(home, (OLD, OLD))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder("here") as folder:
        homes = {p.name.split("-")[2] for p in tmp_path.iterdir()}
        assert homes == {str(alive.pid), str(os.getpid())}
    assert not folder.exists() and new_scratch("again").is_dir()
    kill(alive)
