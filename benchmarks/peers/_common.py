"""What the comparisons with other tools share: their environment, the planted bug, and what a command costs."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sysconfig
import time
import venv
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.bar import Cost

__all__ = ["PLANT", "environment", "note", "timed", "total"]

PEERS = ["polygraphy==0.53.6", "onnxruntime==1.31.1", "onnx==1.23.2", "onnx-graphsurgeon==0.6.1"]

PLANT = """
import sys, onnx
from onnx import numpy_helper
model = onnx.load(sys.argv[1])
convs = [n for n in model.graph.node if n.op_type == "Conv"]
name = convs[len(convs) // 2].input[1]
source = [n for n in model.graph.node if n.output[0] == name]
tensor = source[0].attribute[0].t if source else next(t for t in model.graph.initializer if t.name == name)
weight = numpy_helper.to_array(tensor).copy()
weight[-1] *= 1.5
tensor.CopyFrom(numpy_helper.from_array(weight, tensor.name))
onnx.save(model, sys.argv[2])
print(convs[len(convs) // 2].output[0])
"""


def environment(*, alone: bool = True) -> Path:
    """A virtual environment with the peers, made once; its folder of programs.

    `alone` it holds what they need and nothing else. Otherwise they are installed beside twinnet, and find what it
    finds: PyTorch above all, as they would where the network was trained.
    """
    folder = Path(".venv-peers" if alone else ".venv-peers-beside")
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        install = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
        if alone:
            subprocess.run([*install, *PEERS], check=True)
        else:
            subprocess.run([*install, "--no-deps", *(p for p in PEERS if not _shared(p))], check=True)
            ours, theirs = (sysconfig.get_path("purelib", vars=v) for v in (None, {"base": str(folder)}))
            Path(theirs, "beside.pth").write_text(f"{ours}\n", encoding="utf-8")
        (folder / "ready").touch()
    return folder.absolute() / "bin"


def _shared(requirement: str) -> bool:
    """Whether twinnet's own environment has this very version."""
    name, _, version = requirement.partition("==")
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name) == version
    return False


def timed(
    command: Sequence[str], folder: str, *, programs: Path | None = None, limit: float | None = None
) -> Cost:
    """Run a command; wall and CPU seconds and peak memory of it and its children, and the end of what it said.

    After `limit` seconds it is stopped with its children: the seconds are then a lower bound, and `output` says so.
    """
    search = os.environ.get("PATH", "")
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{search}" if programs else search}
    log = Path(folder) / "last.log"
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("w") as said:
        process = subprocess.Popen(
            list(command), stdout=said, stderr=subprocess.STDOUT, cwd=folder, env=env, start_new_session=True
        )
        ended = ""
        watch = time.perf_counter() + (limit if limit is not None else float("inf"))
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            if time.perf_counter() > watch:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                ended = f"stopped after {limit:.0f} s; "
            time.sleep(0.05)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, peak / 1024, f"{ended}exit {process.returncode}: {log.read_text()[-2000:]}")


def _resident(group: int) -> int:
    """Resident memory of the largest process of a group, in kB."""
    largest = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != group:
                continue
            status = (folder / "status").read_text()
        except (OSError, ValueError):
            continue
        rows = [line for line in status.splitlines() if line.startswith("VmHWM")]
        largest = max([largest, *(int(row.split()[1]) for row in rows)])
    return largest


def total(costs: Iterable[Cost]) -> Cost:
    """Several steps as one."""
    steps = list(costs)
    return Cost(
        sum(c.wall for c in steps), sum(c.cpu for c in steps), max(c.memory for c in steps), steps[-1].output
    )


def note(cost: Cost) -> str:
    """A cost in words."""
    return f"{cost.wall:.1f} s wall, {cost.cpu:.1f} s CPU, {cost.memory:.0f} MB"
