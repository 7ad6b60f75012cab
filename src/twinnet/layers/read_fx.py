"""Read a functional `torch.export` program as a canonical graph."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Node

from twinnet.errors import UsageError
from twinnet.layers.fx import Call, Const, Form, Out, Place, Symbolic, opaque, place, qualified, rules, spoken
from twinnet.layers.fx.complex import fit_for_complex, is_complex
from twinnet.layers.graph import Graph, Layer
from twinnet.torch_versions import is_operator

__all__ = ["read_fx"]

_VALUES = (TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument)


def read_fx(program: ExportedProgram) -> Graph:
    """The canonical graph of an exported program.

    The program has to be functional: `torch.export.export(...).run_decompositions({})`. Values are named like
    fx nodes; the outputs of an operator with several results bear the names of its `getitem` nodes.
    `torch.onnx.export(program, dynamo=True)` uses the same names, but decomposes first, which renumbers nodes: the
    names agree only if `program` was decomposed with ONNX's own table before.

    Parameters, buffers and lifted constants are the program's own tensors. Numbers and strings among the
    inputs were fixed by the export and are not inputs here. An operator without a canonical form is kind
    "opaque" and runs as it is, on float64 tensors; one that draws random numbers has `attrs["random"]`.

    >>> program = torch.export.export(torch.nn.Linear(2, 1).double(), (torch.zeros(1, 2).double(),))
    >>> [(layer.kind, layer.outputs) for layer in read_fx(program.run_decompositions({}))]
    [('linear', ('linear',))]
    """
    reader = _Reader(program)
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem and node not in reader.skipped:
            reader.read(node)
    signature = program.graph_signature
    return Graph(
        layers=tuple(reader.layers),
        inputs=tuple(
            spec.arg.name
            for spec in signature.input_specs
            if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, _VALUES)
        ),
        outputs=tuple(
            spec.arg.name
            for spec in signature.output_specs
            if spec.kind.name == "USER_OUTPUT" and isinstance(spec.arg, _VALUES)
        ),
        constants=reader.constants,
        dtypes=reader.dtypes,
        shapes=reader.shapes,
    )


class _Reader:
    def __init__(self, program: ExportedProgram) -> None:
        self.module = program.graph_module
        self.layers: list[Layer] = []
        self.constants = _constants(program)
        self.dtypes: dict[str, torch.dtype] = {}
        self.shapes: dict[str, tuple[int | str, ...]] = {}
        self.skipped = _assertions(program)
        for node in program.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                self.dtypes[node.name] = value.dtype
                self.shapes[node.name] = tuple(n if isinstance(n, int) else str(n) for n in value.shape)

    def read(self, node: Node) -> None:
        if is_operator(node.target) and node.target._schema.is_mutable:
            raise UsageError(
                f"the exported program changes a tensor in place: {node.name} = {node.target}",
                hint="make it functional first: program.run_decompositions({})",
            )
        names = _result_names(node)
        if not any(names):
            return
        where = place(node)
        results = self._canonical(node, names)
        if results is None:
            inputs, attrs = opaque(node, self.module)
            self.add(Layer("opaque", inputs, tuple(names), attrs), node, where)
        else:
            _Emission(self, node, where, names).emit(results)

    def _canonical(self, node: Node, names: Sequence[str]) -> list[Out] | None:
        """One output of a form for each wanted result, or None if not all of them have a canonical form."""
        rule = rules.get(qualified(node)) if is_operator(node.target) else None
        if rule is None:
            return None
        try:
            found = rule(Call(node, self.constants))
        except Symbolic:
            return None
        if found is None:
            return None
        if isinstance(found, Form):
            found = [found[i] for i in range(found.outputs)]
        outs = [item[0] if isinstance(item, Form) else item for item in found]
        if is_complex(node) and not all(out is None or fit_for_complex(out) for out in outs):
            return None  # most kinds handle real numbers only
        wanted = [(name, outs[i] if i < len(outs) else None) for i, name in enumerate(names) if name]
        return (
            None if any(out is None for _, out in wanted) else [out for _, out in wanted if out is not None]
        )

    def add(self, layer: Layer, node: Node, where: Place) -> None:
        self.layers.append(
            Layer(
                layer.kind,
                layer.inputs,
                layer.outputs,
                layer.attrs,
                node=node.name,
                op=spoken(node),
                module=where.module,
                call=where.call,
                source=where.source,
            )
        )


class _Emission:
    """Turns the forms of one node into layers; values between them are named after the node."""

    def __init__(self, reader: _Reader, node: Node, where: Place, names: Sequence[str]) -> None:
        self.reader, self.node, self.where = reader, node, where
        self.wanted = [name for name in names if name]
        self.names: dict[tuple[int, int], str] = {}
        self.done: set[int] = set()
        self.count = 0

    def emit(self, results: Sequence[Out]) -> None:
        again: list[tuple[str, str]] = []
        for name, out in zip(self.wanted, results, strict=True):
            key = (id(out.form), out.index)
            if key in self.names:
                again.append((name, self.names[key]))
            self.names.setdefault(key, name)
        for out in results:
            self._name_inner(out.form)
        for out in results:
            self._layer(out.form)
        for name, same in again:
            self.reader.add(Layer("identity", (same,), (name,)), self.node, self.where)

    def _name_inner(self, form: Form) -> None:
        """Name the values between forms before any layer is made, so that a form lists all outputs in use."""
        for operand in form.inputs:
            out = operand[0] if isinstance(operand, Form) else operand
            if isinstance(out, Out):
                key = (id(out.form), out.index)
                if key not in self.names:
                    self.names[key] = f"{self.node.name}.{self.count}"
                    self.count += 1
                self._name_inner(out.form)

    def _layer(self, form: Form) -> None:
        if id(form) in self.done:
            return
        self.done.add(id(form))
        inputs = tuple(self._operand(operand) for operand in form.inputs)
        outputs = [self.names.get((id(form), i), "") for i in range(form.outputs)]
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        self.reader.add(Layer(form.kind, inputs, tuple(outputs), form.attrs), self.node, self.where)

    def _operand(self, operand: str | Const | Form | Out | None) -> str | None:
        if isinstance(operand, Const):
            name = f"{self.node.name}.{operand.label}"
            self.reader.constants[name] = operand.tensor
            return name
        if isinstance(operand, (Form, Out)):
            out = operand[0] if isinstance(operand, Form) else operand
            self._layer(out.form)
            return self.names[id(out.form), out.index]
        return operand


def _result_names(node: Node) -> list[str]:
    """Names of a node's results in order; unused results have empty names.

    A program loaded from a file has `getitem` nodes for those, too, which then have no users.
    """
    value = node.meta.get("val")
    if not isinstance(value, (list, tuple)):
        return [node.name]
    names = [""] * len(value)
    for user in node.users:
        if user.target is operator.getitem and user.users:
            index = user.args[1]
            assert isinstance(index, int)
            names[index] = user.name
    return names


def _assertions(program: ExportedProgram) -> set[Node]:
    """Run-time checks, and sizes that are computed only for them."""
    skipped: set[Node] = set()
    for node in reversed(program.graph.nodes):
        if node.op != "call_function":
            continue
        value = node.meta.get("val")
        without_result = value is None and not node.users
        scalar = isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool))
        if without_result or (scalar and all(user in skipped for user in node.users)):
            skipped.add(node)
    return skipped


def _constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters, buffers and lifted constants by placeholder: the same tensors, not copies."""
    tables: tuple[Mapping[str, Any], ...] = (program.state_dict, program.constants)
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    found: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in kinds and spec.target is not None:
            tensor = next((table[spec.target] for table in tables if spec.target in table), None)
            if isinstance(tensor, torch.Tensor):
                found[spec.arg.name] = tensor.detach()
    for node in program.graph.nodes:
        tensor = getattr(program.graph_module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(tensor, torch.Tensor):
            found[node.name] = tensor.detach()
    return found
