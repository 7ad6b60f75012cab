"""Editing ONNX models: what every injector needs, in a few lines each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["INJECTORS", "OPAQUE", "Edit", "Fault", "Injector", "injector"]


@dataclass(frozen=True)
class Fault:
    """What was planted: its name, the tensor where it is born, and the kinds of cause that name it rightly.

    `between` marks steps that were put between a tensor and its readers. `open` says that numbers alone cannot tell
    the cause, since others explain them as well, as they may if fewer than `least` elements differ: for an opaque twin
    none is then asked for, and another is as wrong as ever.
    """

    name: str
    tensor: str
    causes: tuple[str, ...]
    between: bool = False
    open: bool = False
    least: int = 0


class Edit:
    """One model being edited, a random generator, and the values of a clean run (to choose places that
    matter).
    """

    def __init__(
        self, model: onnx.ModelProto, rng: np.random.Generator, values: dict[str, np.ndarray]
    ) -> None:
        self.model = model
        self.graph = model.graph
        self.rng = rng
        self.values = values
        self.open, self.least = False, 0
        """Set by a fault whose cause numbers alone leave open; see `Fault`."""
        self._made = 0

    @cached_property
    def constants(self) -> dict[str, np.ndarray]:
        found = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        return found

    @property
    def opset(self) -> int:
        return max((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), default=1)

    def nodes(
        self, *ops: str, where: Callable[[onnx.NodeProto], bool] = lambda n: True
    ) -> list[onnx.NodeProto]:
        return [n for n in self.graph.node if n.op_type in ops and n.output[0] in self.values and where(n)]

    def pick(self, found: Sequence[Any]) -> Any:
        """One of them at random; None if there are none."""
        return found[int(self.rng.integers(len(found)))] if len(found) else None

    def value(self, node: onnx.NodeProto) -> np.ndarray:
        return self.values[node.output[0]]

    def positions(self, node: onnx.NodeProto) -> int:
        """At how many places weights are applied."""
        value = self.value(node)
        return value.size // value.shape[1 if node.op_type == "Conv" else -1]

    def weights_each(self, node: onnx.NodeProto) -> int:
        """How many weights make one channel of a Conv, MatMul or Gemm."""
        weight = self.constants[node.input[1]]
        if node.op_type == "Conv":
            return weight[0].size
        return weight.shape[-1 if self.attribute(node, "transB", 0) else -2]

    def floats(self) -> list[onnx.NodeProto]:
        """Nodes whose float result has some size and is not constant."""
        return [
            n
            for n in self.graph.node
            if n.op_type != "Constant"
            and n.output[0] in self.values
            and self.value(n).dtype == np.float32
            and self.value(n).size >= 16
            and float(np.ptp(self.value(n))) > 1e-3
        ]

    def constant(self, node: onnx.NodeProto, place: int) -> np.ndarray | None:
        return (
            self.constants.get(node.input[place]) if place < len(node.input) and node.input[place] else None
        )

    def new(self, array: np.ndarray) -> str:
        self._made += 1
        name = f"fault_{self._made}"
        self.constants[name] = array
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def give(self, node: onnx.NodeProto, place: int, array: np.ndarray) -> None:
        """Another constant for this node only."""
        while len(node.input) <= place:
            node.input.append("")
        node.input[place] = self.new(np.asarray(array))

    def attribute(self, node: onnx.NodeProto, name: str, default: Any = None) -> Any:
        for a in node.attribute:
            if a.name == name:
                value = helper.get_attribute_value(a)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def set(self, node: onnx.NodeProto, **values: Any) -> None:
        for name, value in values.items():
            kept = [a for a in node.attribute if a.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(name, value)])

    def _insert(self, at: int, nodes: Iterable[onnx.NodeProto]) -> None:
        for k, node in enumerate(nodes):
            self.graph.node.insert(at + k, node)

    def after(self, node: onnx.NodeProto, make: Callable[[str, str], list[onnx.NodeProto]]) -> None:
        """Further nodes between a node and its readers; the result keeps its name."""
        name = node.output[0]
        self._made += 1
        inner = f"fault_inner_{self._made}"
        at = list(self.graph.node).index(node)
        node.output[0] = inner
        self._insert(at + 1, make(inner, name))

    def before(
        self, node: onnx.NodeProto, place: int, make: Callable[[str, str], list[onnx.NodeProto]]
    ) -> None:
        """Further nodes on one operand of a node."""
        self._made += 1
        inner = f"fault_operand_{self._made}"
        at = list(self.graph.node).index(node)
        made = make(node.input[place], inner)
        node.input[place] = inner
        self._insert(at, made)

    def become(
        self, node: onnx.NodeProto, op: str, inputs: Sequence[str] | None = None, **attributes: Any
    ) -> None:
        """Quite another operator in the place of a node."""
        made = helper.make_node(
            op, list(inputs if inputs is not None else node.input[:1]), list(node.output[:1]), **attributes
        )
        made.name = node.name
        node.CopyFrom(made)


Injector = Callable[[Edit], "tuple[onnx.NodeProto, Sequence[str]] | tuple[str, Sequence[str]] | None"]
INJECTORS: dict[str, Injector] = {}
OPAQUE: set[str] = set()
"""Faults that are planted in opaque twins only: in a file they would be none, or their cause could be read."""


def injector(name: str, *, opaque: bool = False) -> Callable[[Injector], Injector]:
    """Register a fault: a function that edits the model and returns the node and the right causes, or
    None.
    """

    def register(function: Injector) -> Injector:
        assert name not in INJECTORS, name
        INJECTORS[name] = function
        if opaque:
            OPAQUE.add(name)
        return function

    return register
