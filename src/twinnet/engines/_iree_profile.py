"""Time per dispatch of an IREE module, and which ONNX nodes each dispatch computes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx

from twinnet.engines._iree_tools import Compiler, Module, Node, tool, write_inputs
from twinnet.engines.timing import WARM_UP, LayerTime, Span, Timed
from twinnet.errors import EngineError
from twinnet.job import Job
from twinnet.programs.start import Task, start_program
from twinnet.scratch import scratch_folder

__all__ = ["dispatch_times", "dispatched_nodes", "pass_times"]

T = TypeVar("T")

_PREFIX = "network$async_"
_LOCATIONS = [
    "--compile-to=flow",
    "--mlir-print-debuginfo",
    "--mlir-pretty-debuginfo",
    "--mlir-print-local-scope",
    "--mlir-elide-elementsattrs-if-larger=5",
    "--mlir-elide-resource-strings-if-larger=5",
]

# Arguments carry the line of their producer; constants and empty tensors that of their first user.
_ELSEWHERE = re.compile(r"func\.func|\^bb0|arith\.constant|tensor\.empty|linalg\.fill|dispatch\.tensor\.load")


def dispatched_nodes(compiler: Compiler, model: onnx.ModelProto) -> list[tuple[str, tuple[Node, ...]]]:
    """The dispatches in the order in which they are called, and the ONNX nodes that each computes, where known."""
    with compiler.imported(model) as (source, nodes):
        flow = source.with_name("flow.mlir")
        compiler.start(source, nodes, [*_LOCATIONS, "-o", str(flow)])
        return _calls(flow.read_text(), nodes)


_TIMED = re.compile(r"\s*(\d+\.\d+) \(\s*[\d.]+%\)(?:\s+(\d+\.\d+) \(\s*[\d.]+%\))?\s+(.+?)\s*$")
"""A line of MLIR's timing report: user time and wall time, or wall time alone, and the name of a pass."""
_SUMS = ("Total", "root", "Rest")


def pass_times(compiler: Compiler, model: onnx.ModelProto) -> tuple[tuple[str, float], ...]:
    """Seconds of each pass of the compiler, the longest first, as MLIR reports them."""
    with compiler.imported(model) as (source, nodes):
        out = source.with_name("module.vmfb")
        flags = ["--mlir-timing", "--mlir-timing-display=list", "-o", str(out)]
        log = compiler.start(source, nodes, flags)
    total: dict[str, float] = {}
    for line in log.splitlines():
        told = _TIMED.match(line)
        if told and told[3] not in _SUMS and "Pipeline" not in told[3]:
            total[told[3]] = total.get(told[3], 0.0) + float(told[2] or told[1])
    return tuple(sorted(total.items(), key=lambda one: -one[1]))


def _calls(text: str, nodes: Mapping[int, Node]) -> list[tuple[str, tuple[Node, ...]]]:
    """Read the flow phase: executables with the source lines of what is fused in them, then the calls.

    The compiler merges equal executables. The lines in a body are then those of the first call; of a later one only
    the place of the call itself is known.
    """
    bodies: dict[str, set[int]] = {}
    calls: list[tuple[str, tuple[Node, ...]]] = []
    inside = ""
    for line in text.splitlines():
        opened = re.match(r"  flow\.executable private @(\S+) \{", line)
        if opened:
            inside = opened[1]
            bodies[inside] = set()
        elif re.match(r"  util\.func|  util\.initializer", line):
            inside = ""
        places = {int(n) for n in re.findall(r"network\.mlir:(\d+):", line)}
        if inside and not _ELSEWHERE.search(line):
            bodies[inside] |= places
        called = re.match(r"    .*flow\.dispatch @([^:\s]+)::@(\S+?)[\(\[]", line)
        if called and not inside:
            fused = bodies.pop(called[1], set()) | places
            calls.append((called[2], tuple(nodes[n] for n in sorted(fused) if n in nodes)))
    return calls


def dispatch_times(
    module: Module,
    feeds: Mapping[str, np.ndarray],
    device: Sequence[str],
    job: Job,
    repeats: int,
    calls: Sequence[tuple[str, tuple[Node, ...]]],
) -> Timed:
    """The times of each dispatch over `repeats` runs, after some that are not counted."""
    runs = repeats + WARM_UP
    with scratch_folder("iree") as scratch, job.step("profile"):
        home = Path(scratch)
        record = home / "profile.ireeprof"
        flags = [*device, f"--module={module.file}", *write_inputs(module, feeds, home)]
        recording = ["--device_profiling_mode=host-execution", f"--device_profiling_output={record}"]
        bare = _benchmark(flags, runs, job)
        whole = _benchmark([*flags, *recording], runs, job)
        reader = [tool("iree-profile"), "dispatch", "--dispatch_events", "--format=jsonl", str(record)]
        printed = start_program(reader, Task("iree-profile", "profile the network")).out
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    timed = [e for e in events if str(e.get("key", "")).startswith(_PREFIX) and "duration_ns" in e]
    timed.sort(key=lambda e: e["start_host_time_ns"])
    count = len(timed) // runs
    rounds = [_numbered(timed[i * count : (i + 1) * count]) for i in range(WARM_UP, runs)]
    if not timed or count * runs != len(timed) or any(one.keys() != rounds[0].keys() for one in rounds):
        raise EngineError(
            f"iree-profile lists {len(timed)} dispatches of {runs} runs, which cannot be split by run",
            stage="profile the network",
        )
    # Dispatches that do not need each other need not run in the order of the calls.
    computed = {(name, number): nodes for name, number, nodes in _counted(calls)}
    known = computed.keys() == rounds[0].keys()
    steps = []
    for key, event in rounds[0].items():
        nodes = computed[key] if known else ()
        steps.append(
            LayerTime(
                event["key"].removeprefix(_PREFIX),
                "+".join(node.op for node in nodes),
                tuple(_span(number, one[key], one) for number, one in enumerate(rounds)),
                tuple(name for node in nodes for name in node.outputs if name),
                event["key"],
            )
        )
    return Timed(
        tuple(steps),
        tuple(seconds for seconds, _ in whole[WARM_UP:]),
        tuple(seconds for seconds, _ in bare[WARM_UP:]),
        tuple(cpu for _, cpu in bare[WARM_UP:]),
        looked_cpu=tuple(cpu for _, cpu in whole[WARM_UP:]),
    )


def _numbered(events: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """The dispatches of one run in order, by name and how often that name came before.

    >>> list(_numbered([{"key": "a"}, {"key": "b"}, {"key": "a"}]))
    [('a', 0), ('b', 0), ('a', 1)]
    """
    return {(name, number): event for name, number, event in _counted([(e["key"], e) for e in events])}


def _counted(named: Iterable[tuple[str, T]]) -> Iterator[tuple[str, int, T]]:
    seen: Counter[str] = Counter()
    for name, what in named:
        yield name, seen[name], what
        seen[name] += 1


def _span(run: int, event: Mapping[str, Any], beside: Mapping[Any, Mapping[str, Any]]) -> Span:
    start = event["start_host_time_ns"] - next(iter(beside.values()))["start_host_time_ns"]
    return Span(run, event["duration_ns"] * 1e-9, start * 1e-9, int(event.get("worker", 0) or 0))


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def _benchmark(flags: Sequence[str], runs: int, job: Job) -> list[tuple[float, float]]:
    """Seconds of each run by the clock, and of the CPU."""
    often = ["--benchmark_min_time=1x", f"--benchmark_repetitions={runs}", "--benchmark_format=json"]
    task = Task("iree-benchmark-module", "profile the network", job.limit_of("profile"))
    printed = start_program([tool("iree-benchmark-module"), *flags, *often], task).out
    said = json.loads(printed[printed.index("{") :])["benchmarks"]
    single = [one for one in said if one.get("run_type", "iteration") == "iteration"]
    return [
        (one["real_time"] * _UNITS[one["time_unit"]], one["cpu_time"] * _UNITS[one["time_unit"]])
        for one in single
    ]
