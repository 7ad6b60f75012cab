"""Networks that torch.export wrote: a program object or a .pt2 file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from twinnet.errors import UsageError, foreign_as
from twinnet.network.arrays import dtype_name, to_tensor
from twinnet.network.base import ModuleNetwork
from twinnet.network.outputs import functional
from twinnet.network.pt2 import load_pt2
from twinnet.network.torch_network import Example, input_placeholders, leaf_names, name_tensors, output_nodes
from twinnet.signature import Signature, TensorSpec
from twinnet.torch_versions import pytree, undecomposed

__all__ = ["ExportedNetwork"]


class ExportedNetwork(ModuleNetwork):
    """An `ExportedProgram`.

    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(1, 2),))
    >>> [str(s) for s in ExportedNetwork(program).signature.inputs]
    ['input: float32 1x2']
    """

    format = "exported program"

    def __init__(self, program: ExportedProgram, *, name: str = "program", path: Path | None = None) -> None:
        self.program = program
        with foreign_as(lambda error: UsageError(f"{name} is not a complete program: {error}")):
            self.module = program.module()
        self._names = input_placeholders(program)
        self._decomposed: ExportedProgram | None = None
        self.example: Example | None = None
        if program.example_inputs is not None:
            args, kwargs = program.example_inputs
            self.example = (tuple(args), dict(kwargs))
        parameters = sum(
            t.numel() for n, t in program.state_dict.items() if isinstance(t, torch.nn.Parameter)
        )
        signature = Signature(_specs(program, self._names), _specs(program, output_nodes(program)))
        super().__init__(name, signature, parameters=parameters, path=path)

    @classmethod
    def load(cls, path: Path, *, name: str = "") -> ExportedNetwork:
        """Read a .pt2 file; nothing in it is executed unless it is trusted."""
        return cls(load_pt2(path), name=name or path.stem, path=path)

    def unflatten(self, inputs: Mapping[str, Any]) -> Example:
        for name in inputs:
            if name not in self._names:
                raise UsageError(f"{self.name} has no input {name!r}; its inputs: {', '.join(self._names)}")
        for name in self._names:
            if name not in inputs:
                raise UsageError(f"input {name} of {self.name} is missing")
        user = [s for s in self.program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        leaves = [
            to_tensor(inputs[name]) if name in inputs else getattr(spec.arg, "value", None)
            for name, spec in zip(leaf_names(self.program), user)
        ]
        spec = self.program.call_spec.in_spec
        assert spec is not None
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return tuple(args), dict(kwargs)

    def call(
        self, inputs: Mapping[str, np.ndarray | torch.Tensor], *, module: Callable[..., Any] | None = None
    ) -> dict[str, torch.Tensor]:
        args, kwargs = self.unflatten({name: to_tensor(value).clone() for name, value in inputs.items()})
        with torch.no_grad():
            return name_tensors((self.module if module is None else module)(*args, **kwargs))

    def state(self) -> dict[str, torch.Tensor]:
        return dict(self.program.state_dict)

    def exported(self, inputs: Mapping[str, Any] | None = None) -> ExportedProgram:
        if self._decomposed is None:
            with torch.no_grad():
                self._decomposed = functional(undecomposed(self.program))
        return self._decomposed

    def bounds(self) -> dict[str, tuple[int, int]]:
        back = {placeholder: name for name, placeholder in self._names.items()}
        sizes = {
            n.name: n.meta["val"].shape
            for n in self.program.graph.nodes
            if n.op == "placeholder" and "val" in n.meta and isinstance(n.meta["val"], torch.Tensor)
        }
        found: dict[str, tuple[int, int]] = {}
        for node in self.program.graph.nodes:
            if node.op != "call_function" or not str(node.target).startswith("aten.embedding"):
                continue
            table, index = node.args[0].name, node.args[1].name
            if index in back and table in sizes:
                high = int(sizes[table][0]) - 1
                found[back[index]] = (0, min(high, found.get(back[index], (0, high))[1]))
        return found


def _specs(program: ExportedProgram, names: Mapping[str, str]) -> tuple[TensorSpec, ...]:
    nodes = {node.name: node for node in program.graph.nodes}
    specs = []
    for name, node in names.items():
        value = nodes[node].meta.get("val")
        if isinstance(value, torch.Tensor):
            shape = tuple(d if isinstance(d, int) else str(d) for d in value.shape)
            specs.append(TensorSpec(name, dtype_name(value.dtype), shape))
    return tuple(specs)
