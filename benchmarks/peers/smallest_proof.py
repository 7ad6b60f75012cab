"""From a model with a planted bug to the one guilty layer: `polygraphy debug reduce` beside `check --repro`.

Polygraphy's documented procedure is followed to the letter: fold both models, save every tensor of the good one, merge
it with the inputs, reduce by bisection, reduce the rest node by node. Ours is one command on the same input.

It is run twice: in the environment that twinnet itself runs in, which has PyTorch, and in one that holds nothing but
Polygraphy and what it needs. Polygraphy works without PyTorch, but imports it in each of its processes where it finds
it; so the first is what somebody meets who trained the network there, and both tools see the same packages: the bar is
on that one. The other is reported.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.models import model_path

from benchmarks.bar import Bar, Cost, run_apart
from benchmarks.peers._common import PLANT, environment, note, timed, total

__all__ = ["TITLE", "bars"]

TITLE = "PP-OCRv4-det at 160x160, one planted bug: the guilty layer alone, as a file"
SHAPE = "x:[1,3,160,160]"
LIMIT = 3600.0
"""Seconds for each command of theirs; beyond it the figure is a lower bound, and the row says so."""

INPUT = """
import sys, numpy as np
from polygraphy.json import load_json
np.savez(sys.argv[2], **load_json(sys.argv[1])[0])
"""


def bars() -> list[Bar]:
    """Wall and CPU of both ways, and what each of them named."""
    alone = environment()
    good = str(model_path("ppocr-det"))
    with tempfile.TemporaryDirectory(prefix="twinnet-peers-") as folder:
        bad = f"{folder}/bad.onnx"
        planted = run_apart(PLANT, good, bad).output.strip()
        rows = []
        for where, programs in (("beside PyTorch", environment(alone=False)), ("alone", alone)):
            cost, bounded = _polygraphy(programs, good, bad, folder, where)
            rows.append(
                (where, cost, f"{'at least ' if bounded else ''}{note(cost)}", _nodes(programs, folder))
            )
        subprocess.run([str(alone / "python"), "-c", INPUT, "in.json", "in.npz"], cwd=folder, check=True)
        twinnet = [sys.executable, "-m", "twinnet.cli.main"]
        twin = ["--twin", f"onnxruntime:{bad}", "--inputs", "in.npz", "--out", "run", "--quiet"]
        ours = timed([*twinnet, "check", good, *twin, "--repro"], folder)
        result = json.loads(Path(folder, "run/result.json").read_text())
        finding = result["findings"][0]
        assert finding["site"]["tensor"] == planted and finding["cause"] is not None, finding
        assert Path(folder, "run/repro/repro.py").exists(), ours.output
    found = [Bar("check --repro, wall s", ours.wall, note=f"{note(ours)}; {finding['cause']['sentence']}")]
    for where, theirs, words, named in rows:
        bar = 20.0 if where == "beside PyTorch" else None
        found += [
            Bar(f"polygraphy {where}, wall s", theirs.wall, note=f"{words}; left: {named}"),
            Bar(f"polygraphy {where} / check --repro, wall", theirs.wall / ours.wall, bar, True),
            Bar(f"polygraphy {where} / check --repro, CPU", theirs.cpu / ours.cpu),
        ]
    return found


def _polygraphy(programs: Path, good: str, bad: str, folder: str, where: str) -> tuple[Cost, bool]:
    """All steps as one, and whether one of them ran into the limit."""
    fold = ["--fold-constants", "--override-input-shapes", SHAPE]
    mark = ["--onnx-outputs", "mark", "all"]
    tolerance = ["--atol", "1e-4", "--rtol", "1e-4"]
    given = ["--load-inputs", "both.json", "--load-outputs", "golden.json"]
    judge = ["polygraphy", "run", "polygraphy_debug.onnx", "--onnxrt", *given, *tolerance]
    reduce = ["--load-inputs", "both.json", "--fail-regex", r"FAILED \| Output", "--check", *judge]
    steps = (
        ["surgeon", "sanitize", good, "-o", "good.onnx", *fold],
        ["surgeon", "sanitize", bad, "-o", "bug.onnx", *fold],
        ["run", "good.onnx", "--onnxrt", *mark, "--save-inputs", "in.json", "--save-outputs", "golden.json"],
        ["data", "merge", "in.json", "golden.json", "-o", "both.json"],
        ["debug", "reduce", "bug.onnx", "-o", "bisect.onnx", "--mode=bisect", *reduce],
        ["debug", "reduce", "bisect.onnx", "-o", "final.onnx", "--mode=linear", *reduce],
    )
    costs = []
    for step in steps:
        cost = timed([str(programs / "polygraphy"), *step], folder, programs=programs, limit=LIMIT)
        costs.append(cost)
        print(f"  polygraphy {where}, {' '.join(step[:2])}: {note(cost)}", flush=True)
        if cost.output.startswith("stopped"):
            return total(costs), True
        if not cost.output.startswith("exit 0"):
            raise RuntimeError(f"polygraphy {step[0]} failed: {cost.output}")
    return total(costs), False


def _nodes(programs: Path, folder: str) -> str:
    """The nodes of the model that Polygraphy ended with."""
    code = "import onnx; print(*(n.name for n in onnx.load('final.onnx').graph.node))"
    done = subprocess.run(
        [str(programs / "python"), "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "nothing yet"
