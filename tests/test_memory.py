"""Memory of this process and of the programs it started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from twinnet.memory import MemoryWatch, peak_memory

_HOLDS = "held = bytearray(300 << 20); print('held', flush=True); input()"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not list programs")
def test_programs_that_were_started_count() -> None:
    with MemoryWatch() as alone:
        pass
    with (
        MemoryWatch() as watch,
        subprocess.Popen(
            [sys.executable, "-c", _HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child,
    ):
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == b"held\n"
        watch._done.wait(0.5)  # a few looks
        child.stdin.write(b"\n")
        child.stdin.flush()
    assert watch.peak > alone.peak + (250 << 20)
    assert alone.peak <= peak_memory() + (50 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a program counts what its starter held")
def test_what_its_starter_holds_does_not_count() -> None:
    """By its memory, a process that converts is kept or not."""
    held = bytearray(b"x") * (300 << 20)
    code = "from twinnet.memory import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < len(held)
