"""How a side of a repro is run. The source of these functions goes into `repro.py` as it stands.

So they import nothing of twinnet, and what a trial ran while the network was made smaller is what the file runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinnet.engines._command_alone import (
    command_lines,
    filled,
    read_results,
    run_command,
    said_problem,
    tensor_files,
    write_feeds,
    write_files,
)
from twinnet.engines._iree_alone import iree_flags, iree_problem, run_iree
from twinnet.engines._onnx_alone import typed_model

__all__ = [
    "HELPERS",
    "SIDES",
    "allowance",
    "run_elsewhere",
    "run_onnx_reference",
    "run_onnxruntime",
    "run_openvino",
]


def run_onnxruntime(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under ONNX Runtime's CPU provider."""
    if "python" in options:
        return run_elsewhere(run_onnxruntime, model, options, feeds)
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
    """Call a side in the interpreter that `options["python"]` names, with the packages that are installed there."""
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


def run_onnx_reference(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under the reference evaluator of the onnx package."""
    import onnx
    import onnx.reference

    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    evaluator = onnx.reference.ReferenceEvaluator(loaded)
    taken = {i.name for i in loaded.graph.input}
    results = evaluator.run(None, {n: v for n, v in feeds.items() if n in taken})
    return dict(zip([o.name for o in loaded.graph.output], results))


def run_openvino(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under OpenVINO's CPU plugin."""
    import sys

    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import numpy
    import openvino

    core = openvino.Core()
    config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": options.get("precision", "f32")}
    if "threads" in options:
        config["INFERENCE_NUM_THREADS"] = int(options["threads"])
    config.update({k.partition(".")[2]: v for k, v in options.items() if k.startswith("config.")})
    if options.get("shapes") == "static":
        import onnx

        proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        for value in proto.graph.input:
            for size, n in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape):
                size.dim_value = n
        model = proto.SerializeToString()
    loaded = core.read_model(model)
    names = [o.get_any_name() for o in loaded.outputs]
    compiled = core.compile_model(loaded, "CPU", config)
    taken = {i.get_any_name() for i in compiled.inputs}
    request = compiled.create_infer_request()
    request.infer({n: openvino.Tensor(numpy.array(v, order="C")) for n, v in feeds.items() if n in taken})
    return {name: numpy.array(request.get_output_tensor(i).data) for i, name in enumerate(names)}


SIDES: dict[str, Callable[[Any, dict[str, str], dict[str, Any]], dict[str, Any]]] = {
    "onnxruntime": run_onnxruntime,
    "openvino": run_openvino,
    "onnx-reference": run_onnx_reference,
    "iree": run_iree,
    "command": run_command,
}
"""Engines that can run a part of an ONNX network alone."""

HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "onnxruntime": (run_elsewhere,),
    "iree": (typed_model, iree_flags, iree_problem),
    "command": (
        typed_model,
        filled,
        command_lines,
        tensor_files,
        write_feeds,
        write_files,
        read_results,
        said_problem,
    ),
}
"""Further functions that a side calls, whose source has to go with it."""


def allowance(engine: str) -> float:
    """Seconds that making a network smaller may take: a compiler needs some for every trial.

    >>> allowance("onnxruntime"), allowance("iree")
    (60.0, 300.0)
    """
    return 300.0 if engine in _COMPILERS else 60.0


_COMPILERS = frozenset({"iree", "command"})
