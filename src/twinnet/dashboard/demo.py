"""Made-up sessions of a month: a nightly suite of five models on four engines, and what went wrong on the way."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from twinnet.dashboard.database import Database
from twinnet.dashboard.incoming import FileIn, RunIn, SessionIn, key_of
from twinnet.dashboard.store import Store
from twinnet.dashboard.summary import add_result, profile_of, with_profile
from twinnet.dashboard.write import Writer
from twinnet.progress import Report, silent
from twinnet.result import (
    Cause,
    Coverage,
    Difference,
    Finding,
    InputsInfo,
    PairResult,
    Result,
    SideInfo,
    fact,
)
from twinnet.site import Site

__all__ = ["fill"]

_DAYS = 30
_MODELS = {"mobilenet-v3": 42, "ocr-detector": 64, "yolo-nano": 56, "keyword-spotter": 18, "denoiser": 24}
_ENGINES = (("onnxruntime", 1.0), ("openvino", 0.8), ("iree", 1.1), ("litert", 1.3))
"""Engines and how long they take beside the first."""
_OPS = ("conv2d", "batch_norm", "hardswish", "conv2d", "add", "sigmoid", "mul")
_PEOPLE = ("nightly", "anna", "jonas", "mei")


@dataclass(frozen=True, slots=True)
class _Fault:
    """What goes wrong with one model on one engine, from one day to another."""

    model: str
    engine: str
    layer: int
    first: int
    last: int
    ratio: float
    cause: Any
    kind: str


_FAULTS = (
    _Fault(
        "mobilenet-v3",
        "iree",
        11,
        9,
        12,
        41_000.0,
        fact("padding.pads", network=(1, 1), twin=(0, 2)),
        "padding",
    ),
    _Fault(
        "ocr-detector",
        "openvino",
        37,
        _DAYS,
        _DAYS,
        2600.0,
        fact("precision.computed", network="float32", twin="bfloat16"),
        "precision",
    ),
    _Fault(
        "denoiser",
        "litert",
        6,
        20,
        24,
        350.0,
        fact("quantisation.zero_point", network=0, twin=-3),
        "quantisation",
    ),
)
_SLOWER = ("yolo-nano", "iree", 21, 24, 2.4)
"""A layer that became slower on a day, by a factor."""
_REFUSED = ("keyword-spotter", "iree")


def fill(database: Database, store: Store, progress: Report = silent, seed: int = 7) -> None:
    """Write the sessions; the same ones whenever it is called."""
    chance = random.Random(seed)
    now = time.time() - 5 * 3600
    with database.writing() as connection:
        writer = Writer(connection)

        def write(session: SessionIn, day: int) -> None:
            number = writer.session(session)
            writer.runs(number, list(_runs(store, chance, day, day == _DAYS and session.branch == "main")))

        for day in range(_DAYS + 1):
            started = now - (_DAYS - day) * 86400 + chance.uniform(0, 600)
            commit = f"{chance.getrandbits(160):040x}"
            write(_session(day, started, chance, "main", commit, "nightly"), day)
            if day % 4 == 2:
                commit = f"{chance.getrandbits(160):040x}"
                who, branch = (
                    chance.choice(_PEOPLE[1:]),
                    f"faster-{chance.choice(('resize', 'matmul', 'export'))}",
                )
                write(_session(day, started + 9000, chance, branch, commit, who), day)
            progress("made-up sessions", (day + 1) / (_DAYS + 1))


def _session(
    day: int, started: float, chance: random.Random, branch: str, commit: str, who: str
) -> SessionIn:
    return SessionIn(
        key_of("demo", day, branch)[:32],
        "suite",
        started,
        started + 700 + chance.uniform(0, 90),
        "nightly" if branch == "main" else "",
        branch,
        commit,
        who,
        ("twinnet", "suite", "--models", "models"),
        {"python": "3.11.9", "processor": "made up"},
    )


def _runs(store: Store, chance: random.Random, day: int, newest: bool) -> Iterator[RunIn]:
    for model, count in _MODELS.items():
        for engine, pace in _ENGINES:
            name = f"{model}_full_model-{engine}-default"
            run = RunIn(name, model, f"{engine}-default", "PASS", spec=engine, seconds=chance.uniform(4, 20))
            if (model, engine) == _REFUSED:
                message = "iree could not compile the network: failed to legalize operation 'onnx.GRU'"
                yield replace(run, verdict="ERROR", step="compile", message=message, expected="yes")
                continue
            fault = next(
                (f for f in _FAULTS if (f.model, f.engine) == (model, engine) and f.first <= day <= f.last),
                None,
            )
            result = _result(chance, model, engine, count, fault)
            run = add_result(run, result)
            run = replace(run, verdict=result.verdict, expected="no" if fault else "")
            if fault is not None:
                run = replace(run, message=str(run.answer["sentence"]))
            profile = _profile(chance, model, engine, count, pace, day)
            run = with_profile(run, profile_of(json.dumps(profile).encode()) or {})
            yield _kept(run, store, result, profile, chance) if newest else run


def _result(chance: random.Random, model: str, engine: str, count: int, fault: _Fault | None) -> Result:
    """A result as a check would give it."""
    pairs = []
    for i in range(count):
        site = _site(i)
        ratio = math.exp(chance.gauss(-0.4, 0.25) + 0.5 * math.sin(i * 1.7 + len(model) + len(engine)))
        bad = fault is not None and i == fault.layer
        after = fault is not None and i > fault.layer
        size = fault.ratio * math.exp(chance.gauss(0, 0.05)) if bad and fault else ratio
        relative = 2e-3 * chance.uniform(0.8, 1.2) if bad or after else 3e-7 * (1 + i / 10)
        pairs.append(
            PairResult(
                site,
                replace(site, module=""),
                "fail" if bad else "pass",
                order=i,
                born=size * 2e-7,
                floor=2e-7,
                ratio=size,
                difference=Difference(1000, relative * 4, relative, relative, differing=900),
            )
        )
    output = replace(pairs[-1], ratio=9e3 if fault else 1.2, status="fail" if fault else "pass")
    return Result(
        "FAIL" if fault else "PASS",
        SideInfo(
            model,
            "torch",
            "torch",
            "2.13",
            "PyTorch",
            count * 61_000,
            sites=count + 2,
            given=f"{model}.py:build",
        ),
        SideInfo(engine, engine, engine, "1.0", "ONNX", None, sites=count + 5),
        InputsInfo(4, "photos", False, shapes={"x": "1x3x224x224"}, description="4 real images, 1x3x224x224"),
        Coverage(count + 2, count, count + 5, count),
        outputs=(output,),
        pairs=tuple(pairs),
        failing=count - fault.layer if fault else 0,
        findings=(_finding(pairs[fault.layer], fault, count),) if fault else (),
        timings={"convert": 1.2, "run": 3.4, "judge": 0.9, "total": 5.5},
        command=f"twinnet suite -k {model}_full_model-{engine}-default",
        folder=f"{model}_full_model-{engine}-default",
    )


def _finding(pair: PairResult, fault: _Fault, count: int) -> Finding:
    cause = None if fault.cause is None else Cause(fault.kind, fault.cause, 0.9999, pair.site)
    return Finding(
        pair.site,
        pair.twin_site,
        pair.difference.max_abs,
        pair.floor or 0.0,
        pair.ratio or 0.0,
        pair.born or 0.0,
        impact=pair.difference.max_abs,
        born_share=0.98,
        cause=cause,
        inherited_by=count - fault.layer - 1,
    )


def _site(i: int) -> Site:
    op = _OPS[i % len(_OPS)]
    return Site(
        f"{op}_{i}",
        f"{op}_{i}",
        op,
        f"features.{i // 7}.{op}",
        source=f"model.py:{40 + i // 7}",
        shape=(1, 16, 28, 28),
    )


def _profile(
    chance: random.Random, model: str, engine: str, count: int, pace: float, day: int
) -> dict[str, Any]:
    rows = []
    for i in range(count):
        op = _OPS[i % len(_OPS)]
        took = (
            pace
            * (4e-4 if op == "conv2d" else 6e-5)
            * (1 + 0.6 * math.sin(i))
            * math.exp(chance.gauss(0, 0.02))
        )
        if (model, engine) == _SLOWER[:2] and i == _SLOWER[2] and day >= _SLOWER[3]:
            took *= 1 + 8 * _SLOWER[4]
        site = _site(i)
        rows.append(
            {
                "name": site.tensor,
                "op": op,
                "kernel": f"{engine}_{op}",
                "network_ops": [op],
                "sites": [site.tensor],
                "module": site.module,
                "source": site.source,
                "calls": 1,
                "p10": took * 0.95,
                "p50": took,
                "p90": took * 1.1,
                "bytes": 100_000,
                "flops": 2_000_000,
                "limit": "memory" if i % 3 else "compute",
            }
        )
    whole = sum(row["p50"] for row in rows)
    for row in rows:
        row["share"] = row["p50"] / whole
    return {
        "schema": 1,
        "engine": engine,
        "spec": engine,
        "repeats": 50,
        "whole": {"p10": whole * 0.97, "p50": whole, "p90": whole * 1.06},
        "rows": rows,
    }


def _kept(run: RunIn, store: Store, result: Result, profile: dict[str, Any], chance: random.Random) -> RunIn:
    """The files that a run folder would hold."""
    from twinnet.report.html import render_report
    from twinnet.report.json_file import dump_result

    texts = {
        "result.json": dump_result(result).encode(),
        "profile/profile.json": json.dumps(profile).encode(),
        "seeds/README.txt": b"made up: a real run keeps here what `twinnet repro` starts from\n",
    }
    if result.verdict == "FAIL":
        tensors = _tensors(result, chance)
        texts["report.html"] = render_report(result, tensors).encode()
        texts |= _written(tensors)
    else:
        del texts["seeds/README.txt"]
    files = []
    for path, data in texts.items():
        digest, size = store.put(BytesIO(data), len(data))
        files.append(FileIn(path, size, digest))
    return replace(run, files=tuple(files))


def _tensors(result: Result, chance: random.Random) -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(chance.getrandbits(32))
    finding = result.findings[0]
    there = np.cumsum(rng.standard_normal((1, 4, 28, 28)), axis=3).astype(np.float32)
    off = np.zeros_like(there)
    off[:, :, :, -2:] = rng.standard_normal((1, 4, 28, 2)) * 0.4
    return {finding.site.tensor: (there, there + off)}


def _written(tensors: dict[str, Any]) -> dict[str, bytes]:
    from twinnet.report.show import save_tensors
    from twinnet.scratch import scratch_folder

    with scratch_folder("demo") as folder:
        save_tensors(folder, tensors)
        return {
            p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
        }
