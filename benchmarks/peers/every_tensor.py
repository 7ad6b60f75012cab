"""Every tensor of two models compared: Polygraphy's documented path beside `record` + `compare` and `check`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.models import model_path

from benchmarks.bar import Bar, run_apart
from benchmarks.check_speed import CHECK, RECORD
from benchmarks.peers._common import PLANT, environment, note, timed, total

__all__ = ["TITLE", "bars"]

TITLE = "PP-OCRv4-det at 640x640, all tensors"
SHAPE = "x:[1,3,640,640]"

FIND = """
import sys
from twinnet import check
shapes = {"x": (1, 3, 640, 640)}
result = check(sys.argv[1], None, f"onnxruntime:{sys.argv[2]}", shapes=shapes, samples=1, out=sys.argv[3])
print([f.site.tensor for f in result.findings])
"""


def bars() -> list[Bar]:
    """Mark all tensors, save, compare; the same with ours."""
    programs = environment()
    run = [str(programs / "polygraphy"), "run"]
    good = str(model_path("ppocr-det"))
    with tempfile.TemporaryDirectory(prefix="twinnet-peers-") as folder:
        bad = f"{folder}/bad.onnx"
        run_apart(PLANT, good, bad)
        mark = ["--onnxrt", "--onnx-outputs", "mark", "all"]
        commands = (
            [
                *run,
                good,
                *mark,
                "--input-shapes",
                SHAPE,
                "--save-inputs",
                "in.json",
                "--save-outputs",
                "a.json",
            ],
            [*run, bad, *mark, "--load-inputs", "in.json", "--save-outputs", "b.json"],
            [*run, "--load-outputs", "b.json", "a.json"],
        )
        theirs = total([timed(command, folder) for command in commands])
        for name in ("a.json", "b.json", "in.json"):
            Path(folder, name).unlink(missing_ok=True)
        record = run_apart(RECORD, good, f"{folder}/rec")
        check = run_apart(CHECK, good, f"{folder}/check")
        find = run_apart(FIND, good, bad, f"{folder}/find")
    return [
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
