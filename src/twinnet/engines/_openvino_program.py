"""The graph that OpenVINO compiled: which layers were fused, and which tensors remain between them.

As a program (`twinnet.programs`) it runs OpenVINO where twinnet is not installed and answers one JSON request per line;
tensors travel as .npz files. It needs numpy and openvino.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from twinnet.programs.lines import answer_lines

__all__ = ["Step", "executed", "survivors"]


@dataclass(frozen=True)
class Step:
    """A node of the compiled graph, the layers of the model that it computes, and the nodes that read its results."""

    name: str
    op: str
    layers: tuple[str, ...]
    readers: tuple[str, ...] = ()


def executed(compiled: Any) -> list[Step]:
    """The compiled graph in execution order, without constants, inputs and outputs."""
    steps: list[Step] = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        kind = str(info["layerType"].get())
        if kind in ("Const", "Input", "Output"):
            continue
        layers = tuple(n for n in str(info["originalLayersNames"].get()).split(",") if n)
        readers = [t.get_node().get_friendly_name() for o in node.outputs() for t in o.get_target_inputs()]
        steps.append(Step(node.get_friendly_name(), kind, layers, tuple(readers)))
    return steps


def survivors(model: Any, steps: Iterable[Step]) -> set[str]:
    """Tensors of the model that still pass between two steps of what was compiled from it, or leave it.

    A layer's result survives if another step reads it. Layers that no step names were optimised away; readers of their
    results are followed through them.
    """
    home: dict[str, set[int]] = {}
    for index, step in enumerate(steps):
        for layer in step.layers:
            home.setdefault(layer, set()).add(index)
    alive: set[str] = set()
    for operation in model.get_ordered_ops():
        places = home.get(operation.get_friendly_name())
        if not places:
            continue
        for port in operation.outputs():
            if port.names and any(not (home.get(name, set()) & places) for name in _readers(port, home)):
                alive.update(port.names)
    return alive


def _readers(port: Any, home: dict[str, set[int]]) -> Iterator[str]:
    """Names of the layers that read a result, seen through those that no step names."""
    stack, seen = [port], set()
    while stack:
        for target in stack.pop().get_target_inputs():
            node = target.get_node()
            name = node.get_friendly_name()
            if name in home or node.get_type_name() == "Result":
                yield name
            elif name not in seen:
                seen.add(name)
                stack.extend(node.outputs())


def _answer(asked: dict[str, Any], loaded: dict[int, Any]) -> dict[str, Any]:
    import numpy

    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] - it would call home
    import openvino

    do = asked["do"]
    if do == "load":
        settings = asked["settings"]
        core = openvino.Core()
        model = core.read_model(asked["model"])
        if settings["taps"]:
            model.add_outputs(settings["taps"])
        compiled = core.compile_model(model, "CPU", settings["config"])
        loaded[asked["session"]] = compiled, compiled.create_infer_request()
        return {
            "inputs": [i.get_any_name() for i in compiled.inputs],
            "outputs": settings["outputs"] if len(settings["outputs"]) == len(compiled.outputs) else [],
            "precision": compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name(),
            "wide": any(i.get_element_type().get_type_name() == "f64" for i in model.inputs),
            "alive": [] if settings["taps"] else sorted(survivors(model, executed(compiled))),
        }
    if do == "drop":
        loaded.pop(asked["session"], None)
        return {}
    with numpy.load(asked["feeds"], allow_pickle=False) as data:
        feeds = {name: data[str(i)] for i, name in enumerate(asked["names"])}
    compiled, request = loaded[asked["session"]]
    taken = {i.get_any_name() for i in compiled.inputs}
    request.infer({n: openvino.Tensor(numpy.array(a, order="C")) for n, a in feeds.items() if n in taken})
    made = {str(i): numpy.array(request.get_output_tensor(i).data) for i in range(len(asked["outputs"]))}
    numpy.savez(asked["results"], **made)  # type: ignore[arg-type] - older numpy has no allow_pickle here
    return {}


if __name__ == "__main__":
    answer_lines(_answer)
