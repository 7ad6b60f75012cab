"""What IREE is given: an ONNX model of a recent opset, of fixed shapes, with the watched tensors as outputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx

from twinnet.engines._iree_alone import for_iree

__all__ = ["Prepared", "line_nodes", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """A model ready to import. `outputs` are its own, `taps` what can be marked as an output, by name."""

    model: onnx.ModelProto
    outputs: tuple[str, ...]
    taps: Mapping[str, onnx.ValueInfoProto]
    converted_from: int = 0

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Inputs in the order in which the compiled function takes them."""
        held = {t.name for t in self.model.graph.initializer}
        return tuple(i.name for i in self.model.graph.input if i.name not in held)

    def tapped(self, names: Collection[str]) -> tuple[onnx.ModelProto, tuple[str, ...]]:
        """The model with further outputs, in the order of the graph, and the names of all its outputs."""
        extra = [n for n in self.taps if n in names and n not in self.outputs]
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        model.graph.output.extend(self.taps[n] for n in extra)
        return model, (*self.outputs, *extra)


def prepare(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], *, static: bool) -> Prepared:
    """Convert, inline, fix the shapes to those of `feeds` (where `static`), and find the type of every tensor."""
    own, known, converted = for_iree(model, dict(feeds), static)
    made = [name for node in own.graph.node for name in node.output if name]
    taps = {name: known[name] for name in made if name in known}
    return Prepared(own, tuple(o.name for o in own.graph.output), taps, converted)


_NODE = re.compile(r'^    (?:%[\w:]+(?:, )?)*(?: = )?torch\.operator "onnx\.(\w+)"')


def line_nodes(text: str, nodes: Sequence[onnx.NodeProto]) -> dict[int, int]:
    """Lines of an imported module to the index of the ONNX node that stands there.

    The importer writes one line per node, in the graph's order, and lines of its own for constants. Where operator
    types stop to agree, the rest stays unknown.
    """
    found: dict[int, int] = {}
    wanted = [i for i, node in enumerate(nodes) if node.op_type != "Constant"]
    at = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = _NODE.match(line)
        if match is None or match[1] == "Constant":
            continue
        if at >= len(wanted) or nodes[wanted[at]].op_type != match[1]:
            break
        found[number] = wanted[at]
        at += 1
    return found
