"""What IREE is given: an ONNX model of a recent opset, of fixed shapes, with the watched tensors as outputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
from onnx import helper

__all__ = ["Prepared", "line_nodes", "prepare"]

OPSET = 17
"""Models of an older opset are converted to this one: IREE's importer knows no older meaning of many operators."""
FUNCTION = "network"
_OLDEST = 15
_NO_TAP = (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED)


@dataclass(frozen=True)
class Prepared:
    """A model ready to import. `outputs` are its own, `taps` what else can be marked as an output, by name."""

    model: onnx.ModelProto
    outputs: tuple[str, ...]
    taps: Mapping[str, onnx.ValueInfoProto]
    converted_from: int | None = None

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
    own = onnx.ModelProto()
    own.CopyFrom(model)
    if own.functions:
        from onnx.inliner import inline_local_functions

        own = inline_local_functions(own)
    opset = max((o.version for o in own.opset_import if o.domain in ("", "ai.onnx")), default=0)
    converted = None
    if 0 < opset < _OLDEST:
        # Where a model has no conversion it goes in as it is, and IREE says what it thinks of it.
        try:
            own = onnx.version_converter.convert_version(own, OPSET)
            converted = opset
        except Exception:  # the converter raises whatever its C++ side throws
            converted = None
    graph = own.graph
    graph.name = FUNCTION
    if static:
        held = {t.name for t in graph.initializer}
        for info in graph.input:
            if info.name in feeds and info.name not in held:
                kind = info.type.tensor_type.elem_type
                info.CopyFrom(helper.make_tensor_value_info(info.name, kind, feeds[info.name].shape))
        # Shapes that were stored for open dimensions would stand in the way of the fixed ones.
        del graph.value_info[:]
        for info in graph.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(own, data_prop=True).graph
    except Exception:  # an inconsistent model: the compiler has the better words for it
        inferred = graph
    known = {i.name: i for i in (*inferred.value_info, *inferred.output) if _is_tensor(i)}
    for info in graph.output:
        if info.name in known:
            info.CopyFrom(known[info.name])
    made = [name for node in graph.node for name in node.output if name]
    taps = {name: known[name] for name in made if name in known}
    return Prepared(own, tuple(o.name for o in graph.output), taps, converted)


def _is_tensor(info: onnx.ValueInfoProto) -> bool:
    return info.type.HasField("tensor_type") and info.type.tensor_type.elem_type not in _NO_TAP


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
