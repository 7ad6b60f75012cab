"""Exported programs whose every output is the result of an operator of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, TensorArgument
from torch.fx import Graph, Node

from twinnet.network.attention import four_dimensional

__all__ = ["computed_outputs", "functional"]


def functional(program: ExportedProgram) -> ExportedProgram:
    """A decomposed program as all engines take it: an operator for each output, attention of four dimensions."""
    return computed_outputs(four_dimensional(program))


def computed_outputs(program: ExportedProgram) -> ExportedProgram:
    """The program, changed so that an operator makes each of its outputs.

    A network may return its input, a parameter, one tensor twice, or a number. Converters name an output after what
    makes it, so these would share a name or have none: inputs and parameters are copied, numbers become tensors, and
    text, which no converter can hold, is left out.

    >>> program = torch.export.export(torch.nn.Identity(), (torch.ones(2),))
    >>> [node.op for node in computed_outputs(program).graph.nodes]
    ['placeholder', 'call_function', 'output']
    """
    graph = program.graph
    end = graph.output_node()
    results, taken = list(end.args[0]), set[Node]()  # pyright: ignore[reportArgumentType]
    for i, spec in enumerate(program.graph_signature.output_specs):
        result: Any = results[i]
        if spec.kind.name != "USER_OUTPUT":
            continue
        if isinstance(result, Node) and (result.op == "placeholder" or result in taken):
            with graph.inserting_before(end):
                made = _called(graph, torch.ops.aten.clone.default, result)
            made.meta["val"] = result.meta["val"]
        elif isinstance(result, (bool, int, float)):
            with graph.inserting_before(end):
                made = _number(graph, result)
        else:
            if isinstance(result, Node):
                taken.add(result)
            elif result is not None:
                results[i], spec.arg = None, ConstantArgument(name="", value=None)
            continue
        results[i], spec.arg = made, TensorArgument(name=made.name)
    if results != list(end.args[0]):  # pyright: ignore[reportArgumentType]
        end.args = (tuple(results),)
        program.graph_module.recompile()
    return program


def _called(graph: Graph, target: Any, *args: Any, **kwargs: Any) -> Node:
    made = graph.call_function(target, args, kwargs)
    made.meta["from_node"] = []
    return made


def _number(graph: Graph, value: bool | int | float) -> Node:
    kind = torch.tensor(value).dtype
    made = _called(graph, torch.ops.aten.full.default, [], value, dtype=kind)
    known = (n.meta.get("val") for n in graph.nodes)
    mode = next((v.fake_mode for v in known if hasattr(v, "fake_mode")), None)
    made.meta["val"] = torch.full((), value, dtype=kind)
    if mode is not None:
        made.meta["val"] = mode.from_tensor(made.meta["val"])
    return made
