"""`python -m benchmarks.peers`: Polygraphy's documented path beside ours, on the same real detector and input."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tests.models import model_path

from benchmarks.bar import Bar, Cost, print_bars, run_apart, write_json
from benchmarks.check_speed import CHECK, RECORD

PEERS = ["polygraphy==0.53.6", "onnxruntime==1.31.1", "onnx==1.23.2", "onnx-graphsurgeon==0.6.1"]
SHAPE = "x:[1,3,640,640]"

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
"""

FIND = """
import sys
from twinnet import check
shapes = {"x": (1, 3, 640, 640)}
result = check(sys.argv[1], None, f"onnxruntime:{sys.argv[2]}", shapes=shapes, samples=1, out=sys.argv[3])
print([f.site.tensor for f in result.findings])
"""


def environment() -> Path:
    """A virtual environment with the peers, made once."""
    folder = Path(".venv-peers")
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *PEERS], check=True)
        (folder / "ready").touch()
    return folder / "bin"


def timed(command: list[str], folder: str) -> Cost:
    """Run a command; wall, CPU and, from a wrapper, its peak memory."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    wrapper = (
        "import json,resource,subprocess,sys; p=subprocess.run(sys.argv[1:],capture_output=True,text=True);"
        "print(json.dumps([p.returncode,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,p.stdout[-2000:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrapper, *command], capture_output=True, text=True, cwd=folder, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, peak, text = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - start, cpu, peak / 1024, f"exit {code}: {text}")


def total(costs: list[Cost]) -> Cost:
    """Several steps as one."""
    return Cost(
        sum(c.wall for c in costs), sum(c.cpu for c in costs), max(c.memory for c in costs), costs[-1].output
    )


def main() -> int:
    """Print the table; exit 1 if a bar was missed."""
    bin_ = environment()
    polygraphy = [str(bin_.absolute() / "polygraphy")]
    good = str(model_path("ppocr-det"))
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    with tempfile.TemporaryDirectory(prefix="twinnet-peers-") as folder:
        bad = f"{folder}/bad.onnx"
        run_apart(PLANT, good, bad)
        mark = ["--onnxrt", "--onnx-outputs", "mark", "all", "--input-shapes", SHAPE]
        theirs = total(
            [
                timed(
                    [*polygraphy, "run", good, *mark, "--save-inputs", "in.json", "--save-outputs", "a.json"],
                    folder,
                ),
                timed(
                    [
                        *polygraphy,
                        "run",
                        bad,
                        *mark[:4],
                        "--load-inputs",
                        "in.json",
                        "--save-outputs",
                        "b.json",
                    ],
                    folder,
                ),
                timed([*polygraphy, "run", "--load-outputs", "b.json", "a.json"], folder),
            ]
        )
        for name in ("a.json", "b.json", "in.json"):
            Path(folder, name).unlink(missing_ok=True)
        record = run_apart(RECORD, good, f"{folder}/rec")
        check = run_apart(CHECK, good, f"{folder}/check")
        find = run_apart(FIND, good, bad, f"{folder}/find")

    def note(cost: Cost) -> str:
        return f"{cost.wall:.1f} s wall, {cost.cpu:.1f} s CPU, {cost.memory:.0f} MB"

    bars = [
        Bar("polygraphy: mark all, save, compare; wall s", theirs.wall, note=note(theirs)),
        Bar("polygraphy / record both + compare, wall", theirs.wall / record.wall, 10.0, True, note(record)),
        Bar("polygraphy / whole check, wall", theirs.wall / check.wall, note=note(check)),
        Bar(
            "polygraphy / check that names the faulty layer, wall",
            theirs.wall / find.wall,
            note=f"{note(find)}; {find.output.strip()}",
        ),
        Bar("polygraphy / whole check, peak memory", theirs.memory / check.memory),
    ]
    print_bars("PP-OCRv4-det at 640x640, all tensors", bars)
    write_json(Path("bench-results/peers.json"), bars)
    return 0 if all(b.met for b in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
