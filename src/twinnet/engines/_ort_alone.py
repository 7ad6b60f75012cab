"""Run ONNX Runtime without twinnet, as `repro.py` does.

The source of these functions is copied into `repro.py`, so they must not use twinnet and may call only each other.
"""

from __future__ import annotations

from typing import Any

__all__ = ["run_elsewhere", "run_onnxruntime"]


def run_onnxruntime(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under ONNX Runtime's CPU provider."""
    if "python" in options:
        return run_elsewhere(run_onnxruntime, model, options, feeds)
    import os

    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would call home
    import onnxruntime

    levels = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}
    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 4
    level = levels.get(options.get("opt", "all"), "ORT_ENABLE_ALL")
    chosen.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    if "threads" in options:
        chosen.intra_op_num_threads = int(options["threads"])
    for key, value in options.items():
        if key.startswith("config."):
            chosen.add_session_config_entry(key.partition(".")[2], value)
    session = onnxruntime.InferenceSession(model, chosen, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    taken = {i.name for i in session.get_inputs()}
    return dict(zip(names, session.run(names, {n: v for n, v in feeds.items() if n in taken})))


def run_elsewhere(side: Any, model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Call a side in the interpreter `options["python"]`, with the packages installed there."""
    import inspect
    import json
    import subprocess
    import tempfile
    from pathlib import Path

    import numpy

    task = """
import json, sys, numpy
told = json.load(open(sys.argv[1]))
with numpy.load(told["feeds"], allow_pickle=False) as data:
    feeds = {name: data[str(i)] for i, name in enumerate(told["names"])}
results = run(told["model"], told["options"], feeds)
numpy.savez(told["results"], **{str(i): a for i, a in enumerate(results.values())})
json.dump(list(results), open(told["list"], "w"))
"""
    code = (
        "from __future__ import annotations\n" + inspect.getsource(side) + f"\nrun = {side.__name__}\n" + task
    )
    with tempfile.TemporaryDirectory() as folder:
        file = {n: str(Path(folder, n)) for n in ("model.onnx", "feeds.npz", "results.npz", "list", "told")}
        if isinstance(model, bytes):
            Path(file["model.onnx"]).write_bytes(model)
        numpy.savez(file["feeds.npz"], **{str(i): a for i, a in enumerate(feeds.values())})
        told = {
            "model": file["model.onnx"] if isinstance(model, bytes) else str(model),
            "options": {k: v for k, v in options.items() if k != "python"},
            "names": list(feeds),
            "feeds": file["feeds.npz"],
            "results": file["results.npz"],
            "list": file["list"],
        }
        Path(file["told"]).write_text(json.dumps(told))
        command = [options["python"], "-I", "-c", code, file["told"]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise RuntimeError(lines[-1] if lines else f"it ended with {done.returncode}")
        names = json.loads(Path(file["list"]).read_text())
        with numpy.load(file["results.npz"], allow_pickle=False) as data:
            return {name: data[str(i)] for i, name in enumerate(names)}
