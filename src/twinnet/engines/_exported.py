"""Running an exported graph node by node: every value can be watched, replaced, or computed in another precision."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node
from torch.fx.node import map_arg

from twinnet.errors import foreign
from twinnet.network.arrays import to_numpy
from twinnet.torch_versions import pytree
from twinnet.trace import Trace, TraceBuilder

__all__ = ["Walk", "cast", "nodes_between", "values_read"]

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
"""Complex types by float type; torch supports hardly any operator on narrower ones."""


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """Cast a float tensor to `dtype`, a complex one to the matching complex type; anything else stays (None: all).

    >>> cast(torch.ones(1), torch.float64).dtype, cast(torch.ones(1) * 1j, torch.float64).dtype
    (torch.float64, torch.complex128)
    """
    if dtype is None or not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return value.to(_COMPLEX.get(dtype, value.dtype))
    return value.to(dtype) if value.is_floating_point() else value


def nodes_between(program: Any, targets: Collection[str], known: Collection[str]) -> frozenset[str]:
    """The operators that make `targets` from the values of `known`."""
    nodes = {node.name: node for node in program.graph.nodes}
    found: set[str] = set()
    for target in targets:
        stack = [nodes[target]] if target in nodes else []
        while stack:
            node = stack.pop()
            given = node.name in known and node.name != target
            if node.op != "call_function" or node.name in found or given:
                continue
            found.add(node.name)
            stack.extend(node.all_input_nodes)
    return frozenset(found)


def values_read(program: Any, nodes: Collection[str]) -> list[str]:
    """The values that these operators read but do not make."""
    return [
        node.name
        for node in program.graph.nodes
        if node.name not in nodes and any(user.name in nodes for user in node.users)
    ]


@dataclass(frozen=True)
class Walk:
    """How an exported program is run.

    `placeholders` are the graph's names of the network's inputs. With a `dtype` every float is in it, except that the
    operators `kept` compute in the network's `own` precision, from its own weights; their results are rounded where
    another operator reads them.
    """

    program: Any
    placeholders: Collection[str]
    dtype: torch.dtype | None
    own: torch.dtype
    kept: frozenset[str] = frozenset()

    def trace(
        self,
        tensors: Mapping[str, Any],
        wanted: Collection[str],
        builder: TraceBuilder,
        patches: Mapping[str, Any],
        only: Collection[str] | None = None,
    ) -> Trace:
        """Run the program on `tensors`, by placeholder; keep wanted values and free the rest after their last use.

        Values in `patches` are not computed but taken from there. With `only`, no other operators run.
        """
        values: dict[Node, Any] = {}
        wide: dict[Node, Any] = {}
        last_use = _last_uses(self.program.graph)
        with torch.no_grad():
            for node in self.program.graph.nodes:
                if node.op == "placeholder":
                    values[node] = patches.get(node.name, self._placeholder(node.name, tensors))
                    if node.name in tensors and isinstance(values[node], torch.Tensor):
                        builder.add(node.name, np.array(to_numpy(values[node])))
                elif node.op == "get_attr":
                    values[node] = operator.attrgetter(node.target)(self.program.graph_module)
                elif node.op == "call_function":
                    if only is not None and node.name not in only and node.name not in patches:
                        continue
                    if node.name in patches:
                        values[node] = patches[node.name]
                    elif node.name in self.kept:
                        wide[node] = self._call_wide(node, values, wide)
                        values[node] = pytree.tree_map(lambda t: cast(t, self.dtype), wide[node])
                    else:
                        values[node] = self._call(node, values)
                    if node.name in wanted and isinstance(values[node], torch.Tensor):
                        # Views share memory with what they look at, so each tensor is copied as it is now.
                        builder.add(node.name, np.array(to_numpy(values[node]), order="C"))
                for used in last_use.get(node, ()):
                    values.pop(used, None)
                    wide.pop(used, None)
        return builder.done()

    def _call(self, node: Node, values: Mapping[Node, Any]) -> Any:
        """One operator; one that names a float dtype follows the dtype that is asked for."""
        if self.dtype is not None and str(node.target) == "aten._assert_tensor_metadata.default":
            return None  # export notes the dtype of what is cast; here it is another
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        if self.dtype is not None and kwargs.get("dtype") in _FLOATS:
            kwargs = {**kwargs, "dtype": self.dtype}
        return _result(node, args, kwargs)

    def _call_wide(self, node: Node, values: Mapping[Node, Any], wide: Mapping[Node, Any]) -> Any:
        """One operator in the network's own precision."""

        def operand(used: Node) -> Any:
            if used in wide:
                return wide[used]
            if used.op == "placeholder" and used.name not in self.placeholders:
                return self._lifted(used.name)
            return pytree.tree_map(lambda t: cast(t, self.own), values[used])

        args, kwargs = map_arg((node.args, node.kwargs), operand)
        return _result(node, args, kwargs)

    def _placeholder(self, name: str, tensors: Mapping[str, Any]) -> Any:
        return tensors[name] if name in tensors else cast(self._lifted(name), self.dtype)

    def _lifted(self, name: str) -> Any:
        """The parameter, buffer or constant behind a placeholder; None where an input was None at the export."""
        signature = self.program.graph_signature
        target = (
            signature.inputs_to_parameters.get(name)
            or signature.inputs_to_buffers.get(name)
            or signature.inputs_to_lifted_tensor_constants.get(name)
        )
        if target is None:
            return None
        value = self.program.state_dict.get(target)
        return value if value is not None else self.program.constants[target]


def _result(node: Node, args: Any, kwargs: Any) -> Any:
    with foreign("run the exported graph", "torch"):
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _last_uses(graph: Any) -> dict[Node, list[Node]]:
    """For each node, the values that are not needed after it."""
    last: dict[Node, Node] = {}
    for node in graph.nodes:
        for used in node.all_input_nodes:
            last[used] = node
    found: dict[Node, list[Node]] = {}
    for used, node in last.items():
        found.setdefault(node, []).append(used)
    return found
