"""Makes TFLite files in a process of its own: converts exported programs, quantises TFLite files.

As a program (`twinnet.programs`) it answers one JSON request per line: {"do": "convert", "program", "target"} or {"do":
"quantise", "source", "target", "recipe", "calibrate", "samples": [.npz files]}. Importing litert-torch takes longer
than most conversions, so the process is kept for the next one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twinnet.memory import peak_memory
from twinnet.programs.lines import answer_lines

__all__: list[str] = []


def _answer(task: dict[str, Any], _: dict[Any, Any]) -> dict[str, Any]:
    if task["do"] == "convert":
        _convert(task)
    elif task["do"] == "quantise":
        _quantise(task)
    return {"memory": peak_memory()}


def _convert(task: dict[str, Any]) -> None:
    import litert_torch
    import torch

    program = torch.export.load(task["program"])
    args, kwargs = program.example_inputs or ((), {})
    module = program.module(check_guards=False)
    # Programs are exported in evaluation mode; the graph module does not know that.
    module.training = False
    made = litert_torch.convert(module, args, kwargs or None)
    made.export(task["target"])


def _quantise(task: dict[str, Any]) -> None:
    import numpy
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    tool = quantizer.Quantizer(task["source"])
    tool.load_quantization_recipe(getattr(recipe, task["recipe"])())
    measured = None
    if tool.need_calibration:
        key: Any = next(iter(Interpreter(model_path=task["source"]).get_signature_list()), None)
        samples = []
        for file in task["samples"]:
            with numpy.load(file, allow_pickle=False) as data:
                samples.append({name: data[name] for name in data.files})
        measured = (
            tool.calibrate({key: samples}) if task["calibrate"] == "average" else _range(tool, key, samples)
        )
    made = tool.quantize(measured).quantized_model
    if made is None:
        raise ValueError("the tool gave nothing back")
    Path(task["target"]).write_bytes(bytes(made))


def _range(tool: Any, key: Any, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The range of every tensor over all samples; the tool's own way averages over them, which cuts off the largest."""
    import numpy

    found: dict[str, Any] = {}
    for sample in samples:
        for name, seen in tool.calibrate({key: [sample]}).items():
            before = found.get(name)
            if not isinstance(seen, dict) or "min" not in seen or before is None:
                found[name] = seen
                continue
            ends = {
                "min": numpy.minimum(before["min"], seen["min"]),
                "max": numpy.maximum(before["max"], seen["max"]),
            }
            found[name] = {**seen, **ends}
    return found


def _told(error: Exception, _: int) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


if __name__ == "__main__":
    # It logs through TensorFlow's channels, and would look for accelerators.
    os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"})
    answer_lines(_answer, _told)
