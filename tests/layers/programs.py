"""Run exported programs node by node, and compare them with their canonical graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind

from twinnet.layers import Graph, evaluate, evaluate_with_error
from twinnet.torch_versions import export, pytree, undecomposed

__all__ = ["UNIT", "assert_equal_in_double", "assert_rounding_is_bounded", "doubled", "exported", "run_nodes"]

UNIT = 2.0**-24
Values = dict[str, torch.Tensor]


def exported(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> ExportedProgram:
    """The functional program that `read_fx` takes."""
    return undecomposed(export(module, args, kwargs or {}))


def doubled(tree: Any) -> Any:
    """Every float tensor of a pytree in float64."""
    return pytree.tree_map(
        lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree
    )


def inputs_of(program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """What goes into the placeholders of the program's graph, in order."""
    flat = iter(pytree.tree_leaves((args, dict(kwargs))))
    found = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            found.append(next(flat))
            assert not isinstance(spec.arg, ConstantArgument) or found[-1] == spec.arg.value
        else:
            table = program.state_dict if spec.target in program.state_dict else program.constants
            found.append(table[spec.target])
    return found


def run_nodes(program: ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Values:
    """Every tensor of the program, each node run as torch runs it."""
    seen: Values = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, torch.Tensor):
                seen[n.name] = result.detach()
            elif isinstance(result, (bool, int, float)):
                seen[n.name] = torch.tensor(result)
            return result

    with torch.no_grad():
        Recorder(program.graph_module).run(*inputs_of(program, args, kwargs))
    return seen


def assert_equal_in_double(graph: Graph, values: Values, rtol: float = 1e-10) -> None:
    """Every value computed by the graph from its inputs is what torch computed in float64."""
    makers = {name: layer for layer in graph for name in layer.outputs if name in values}
    got = evaluate(graph, {name: values[name] for name in graph.inputs}, keep=makers)
    for name, layer in makers.items():
        y, expected = got[name], values[name]
        what = f"{name} ({layer.kind}, {layer.source})"
        assert y.shape == expected.shape, f"{what}: {tuple(y.shape)} instead of {tuple(expected.shape)}"
        assert y.is_floating_point() == expected.is_floating_point(), (
            f"{what}: {y.dtype}, not {expected.dtype}"
        )
        if y.is_floating_point():
            # Whole numbers become float32 by default, also in a float64 program.
            close = rtol if expected.dtype == torch.float64 else 1e-6
            scale = float(expected[expected.isfinite()].abs().max()) if expected.isfinite().any() else 0.0
            error = {"rtol": close, "atol": close * scale, "equal_nan": True}
            torch.testing.assert_close(y, expected.double(), **error, msg=lambda m, w=what: f"{w}: {m}")
        else:
            assert torch.equal(y.to(expected.dtype), expected), f"{what} differs"


def assert_rounding_is_bounded(graph: Graph, values: Values, factor: float = 4.0) -> dict[str, float]:
    """Each node of a float32 run stays within the rounding that its layers allow on the inputs it had.

    Returns for each value the largest difference in units of that bound.
    """
    ratios: dict[str, float] = {}
    indices: dict[str, list[int]] = {}
    for i, layer in enumerate(graph):
        indices.setdefault(layer.node, []).append(i)
    for own in indices.values():
        names = [name for i in own for name in graph.layers[i].outputs if name in values]
        read = {name for i in own for name in graph.layers[i].inputs if name in values}
        given = {name: values[name] for name in read}
        got = evaluate_with_error(graph, given, {}, unit=UNIT, layers=own, keep=names)
        for name in names:
            ratios[name] = worst_ratio(values[name], *got[name])
            made = [graph.layers[i].kind for i in own]
            where = f"{name} ({', '.join(made)}, {graph.layers[own[0]].source})"
            assert ratios[name] <= factor, f"{where}: {ratios[name]:.3g} times its bound"
    return ratios


def worst_ratio(got: torch.Tensor, expected: torch.Tensor, error: torch.Tensor | None) -> float:
    """Largest difference in units of what rounding allows: 0 if all bits agree, inf if none is allowed."""
    expected = expected.double()
    off = torch.where(got.double() == expected, 0.0, (got.double() - expected).abs())
    off = torch.where(got.isnan() & expected.isnan(), 0.0, off)
    if error is None:
        return float("inf") if bool((off != 0).any()) else 0.0
    floor = error.double() + UNIT * expected.abs() + 2.0**-126
    return float(torch.where(off == 0, 0.0, off / floor).max()) if off.numel() else 0.0
