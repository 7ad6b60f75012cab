"""A whole check of a real detector (PP-OCRv4-det, 1x3x640x640, 330 tensors, 691 MB) beside a hand-written loop."""

from __future__ import annotations

import tempfile

from tests.models import model_path

from benchmarks.bar import Bar, Cost, run_apart

__all__ = ["HAND_WRITTEN", "bars"]

HAND_WRITTEN = """
import sys, numpy as np, onnx, onnxruntime as ort
model = onnx.load(sys.argv[1])
have = {o.name for o in model.graph.output}
for node in model.graph.node:
    if node.op_type != "Constant":
        for name in node.output:
            if name not in have:
                model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
data = model.SerializeToString()
x = np.random.RandomState(1).rand(1, 3, 640, 640).astype("float32")
levels = ort.GraphOptimizationLevel
for side, level in (("a", levels.ORT_DISABLE_ALL), ("b", levels.ORT_ENABLE_ALL)):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    arrays = session.run(names, {"x": x})
    np.savez(f"{sys.argv[2]}/{side}.npz", **dict(zip([n.replace("/", "_") for n in names], arrays)))
    del arrays
    del session
a, b = np.load(f"{sys.argv[2]}/a.npz"), np.load(f"{sys.argv[2]}/b.npz")
for name in a.files:
    p, q = a[name].ravel(), b[name].ravel()
    if p.dtype.kind == "f" and p.size:
        d = p - q
        figures = np.abs(d).max(), float(d @ d), float(p @ q) / max(float(p @ p) ** 0.5 * float(q @ q) ** 0.5, 1e-30)
"""

RECORD = """
import sys, numpy as np
from twinnet import compare, record
x = np.random.RandomState(1).rand(1, 3, 640, 640).astype("float32")
for side, spec in (("a", "onnxruntime?opt=off"), ("b", "onnxruntime")):
    record(sys.argv[1], {"x": x}, out=f"{sys.argv[2]}/{side}", reference=spec)
print(compare(f"{sys.argv[2]}/a", f"{sys.argv[2]}/b").verdict)
"""

CHECK = """
import sys, numpy as np
from twinnet import check
x = np.random.RandomState(1).rand(1, 3, 640, 640).astype("float32")
result = check(sys.argv[1], {"x": x}, "onnxruntime", out=sys.argv[2])
print(result.verdict, len(result.pairs))
"""


def _measure(code: str, *arguments: str) -> Cost:
    with tempfile.TemporaryDirectory(prefix="twinnet-bench-") as folder:
        return run_apart(code, *arguments, folder)


def bars() -> list[Bar]:
    """Ratios to the hand-written loop, each measured in its own process, twice, the better one kept."""
    path = str(model_path("ppocr-det"))
    best: dict[str, Cost] = {}
    for _ in range(2):
        for name, code in (("hand", HAND_WRITTEN), ("record", RECORD), ("check", CHECK)):
            cost = _measure(code, path)
            if name not in best or cost.cpu < best[name].cpu:
                best[name] = cost
    hand, record, check = best["hand"], best["record"], best["check"]

    def note(cost: Cost) -> str:
        return f"{cost.wall:.1f} s wall, {cost.cpu:.1f} s CPU, {cost.memory:.0f} MB"

    return [
        Bar("hand-written loop, CPU s", hand.cpu, note=note(hand)),
        Bar("record both sides + compare / hand-written, CPU", record.cpu / hand.cpu, 2.0, note=note(record)),
        Bar("record + compare / hand-written, wall", record.wall / hand.wall),
        Bar("record + compare / hand-written, peak memory", record.memory / hand.memory, 1.0),
        Bar("whole check / hand-written, CPU", check.cpu / hand.cpu, 6.0, note=note(check)),
        Bar("whole check / hand-written, wall", check.wall / hand.wall, 6.0),
        Bar("whole check / hand-written, peak memory", check.memory / hand.memory),
    ]
