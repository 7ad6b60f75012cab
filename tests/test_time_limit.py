"""Time limits of single steps, and what says that a step was stopped by an accident."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager

import numpy as np
import pytest

import twinnet
from tests.onnx_edit import make_model
from twinnet import Limits, Result
from twinnet.errors import EngineError, UsageError, foreign, machine_error
from twinnet.job import Job
from twinnet.programs.start import Task, start_program
from twinnet.programs.worker import Worker
from twinnet.time_limit import TimeLimits, limited


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "nan", "inf", "compile=", "judge=3", "run=1,run=2", "1,2", "compile=-1"]
)
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        TimeLimits.of(text)
    with pytest.raises(UsageError):
        Limits(time_limit={"judge": 3})


def test_a_limit_holds_for_its_step_only() -> None:
    job = Job({}, time_limit={"compile": 0.05, "run": 60})
    assert [job.limit_of(s) for s in ("compile the network", "run", "load", "convert to ONNX")] == [
        0.05,
        60,
        None,
        None,
    ]
    with job.step("export"), job.step("judge", ours=True):
        time.sleep(0.1)
    with (
        pytest.raises(EngineError, match="compile exceeded the time limit") as caught,
        job.step("compile"),
    ):
        while True:
            pass
    assert caught.value.accident == "time" and "--time-limit compile=SECONDS" in str(caught.value)
    # Without a name a limit is for engines, not for what twinnet does itself.
    job = Job({}, time_limit=0)
    with job.step("judge", ours=True):
        pass


def test_accidents_are_told_from_what_would_come_again() -> None:
    def ended(code: str, limit: float | None = None) -> str:
        with pytest.raises(EngineError) as caught:
            start_program([sys.executable, "-S", "-c", code], Task("tool", "compile the network", limit))
        return caught.value.accident

    assert ended("raise SystemExit('the time limit, died of, not enough memory')") == ""
    assert ended("import os; os.kill(os.getpid(), 9)") == "killed"
    assert ended("import time; time.sleep(60)", 0.1) == "time"
    for code, accident in (("raise SystemExit(3)", ""), ("import os; input(); os.abort()", "killed")):
        with (
            Worker([sys.executable, "-S", "-c", code], "tool") as worker,
            pytest.raises(EngineError) as caught,
        ):
            worker.ask({}, "run")
        assert caught.value.accident == accident
    with pytest.raises(EngineError) as caught, foreign("run the network", "engine"):
        raise MemoryError
    assert caught.value.accident == "memory" and caught.value.hinting("buy more").accident == "memory"
    error = machine_error(OSError(28, "No space left on device"), "runs")
    assert isinstance(error, EngineError) and error.accident == "machine"


def test_a_check_has_limits_by_step() -> None:
    from onnx import helper

    net = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 4)}, ["y"])
    x = np.ones((1, 4), np.float32)

    def slow(x: np.ndarray) -> np.ndarray:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            pass
        return x

    def checked(**seconds: float) -> Result:
        found = twinnet.check(net, {"x": x}, slow, limits=Limits(time_limit=seconds), keep="none")
        assert isinstance(found, Result)
        return found

    assert checked(compile=0).verdict == "PASS"
    late = checked(run=0.1)
    assert (late.verdict, late.stage, late.accident) == ("ERROR", "run", "time")
    late = checked(compare=0)
    assert (late.verdict, late.stage, late.accident) == ("ERROR", "judge", "time")


def test_a_program_that_ends_at_the_limit_is_not_interrupted_as_well() -> None:
    """Both limits are the same; an interruption could arrive where nobody expects it any more."""
    slow = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    for _ in range(10):
        with (
            pytest.raises(EngineError, match="could not compile the network within the time limit"),
            limited(0.05, "compile"),
        ):
            start_program(slow, Task("tool", "compile the network", 0.05))


def test_a_block_that_was_left_without_its_end_is_not_interrupted() -> None:
    """As when an exception comes while its end begins, and somebody keeps the traceback."""

    def entered() -> AbstractContextManager[None]:
        block = limited(0.01, "the count")
        block.__enter__()
        return block

    kept = entered()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        pass
    with pytest.raises(EngineError, match="the time limit"):
        kept.__exit__(None, None, None)
