"""Make ONNX Runtime sessions; as a program, do so in an interpreter where twinnet is not installed.

As a program (`twinnet.programs`) it answers one JSON request per line; tensors travel as .npz files. It needs numpy and
onnxruntime, of whatever version that interpreter has, and nothing else.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from twinnet.programs.lines import answer_lines

__all__ = ["LEVELS", "make_session"]

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would call home from where twinnet is not installed

LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


def make_session(model: Any, settings: dict[str, Any]) -> Any:
    """An `InferenceSession` of a file or of a model's bytes.

    `settings`: level, threads (None: all cores), entries, save_to (file for the optimised graph), profile_to (prefix of
    the profile's file name) and deployed (memory and threads as by default, for measuring time).
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[settings["level"]])
    if settings["threads"]:
        options.intra_op_num_threads = settings["threads"]
    if not settings.get("deployed"):
        # An arena never shrinks below a session's peak; many sessions live side by side here.
        options.enable_cpu_mem_arena = False
        # Spinning threads save time only if nothing else runs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for key, value in settings["entries"].items():
        options.add_session_config_entry(key, value)
    if settings.get("save_to"):
        options.optimized_model_filepath = settings["save_to"]
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", "weights.bin"
        )
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
        )
    if settings.get("profile_to"):
        options.enable_profiling = True
        options.profile_file_prefix = settings["profile_to"]
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _answer(asked: dict[str, Any], sessions: dict[int, Any]) -> dict[str, Any]:
    import numpy

    do = asked["do"]
    if do == "version":
        import onnxruntime

        python = ".".join(str(n) for n in sys.version_info[:3])
        return {"onnxruntime": onnxruntime.__version__, "numpy": numpy.__version__, "python": python}
    if do == "load":
        session = make_session(asked["model"], asked["settings"])
        sessions[asked["session"]] = session
        names = [[i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]]
        return {"inputs": names[0], "outputs": names[1]}
    if do == "drop":
        sessions.pop(asked["session"], None)
        return {}
    with numpy.load(asked["feeds"], allow_pickle=False) as data:
        feeds = {name: data[str(i)] for i, name in enumerate(asked["names"])}
    results = sessions[asked["session"]].run(asked["outputs"], feeds)
    kept = {str(i): a for i, a in enumerate(results) if isinstance(a, numpy.ndarray) and a.dtype != object}
    numpy.savez(asked["results"], **kept)  # type: ignore[arg-type] - older numpy has no allow_pickle here
    return {}


if __name__ == "__main__":
    answer_lines(_answer)
