"""Cut TFLite graphs: feed any tensors, ask for any others, keep only the operators and buffers in between."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from twinnet.errors import EngineError, foreign
from twinnet.layers.walk import walk_back
from twinnet.tflite.model import Subgraph

__all__ = ["Cutter", "between"]

_CALLS = {"IF", "WHILE", "CALL_ONCE", "CALL", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "STABLEHLO_CASE"}
_CALLS |= {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}


def between(graph: Subgraph, outputs: Iterable[int], fed: Collection[int]) -> tuple[list[int], list[int]]:
    """The operators that compute `outputs` from the tensors in `fed`, and the fed tensors they read.

    Raises EngineError if they need an input of the network that is not fed, or call another graph.
    """
    operators, ends = walk_back(
        outputs, fed, graph.producer, lambda index: (t for t in graph.operators[index].inputs if t >= 0)
    )
    for op in (graph.operators[index].op for index in operators):
        if op in _CALLS:
            raise EngineError(f"{op} cannot be run apart from the rest", stage="cut")
    for tensor in ends:
        held = graph.tensors[tensor]
        if tensor not in fed and held.data is None and tensor in graph.inputs:
            raise EngineError(f"the part needs the input {held.name}, which is not given", stage="cut")
    return operators, [tensor for tensor in ends if tensor in fed]


class Cutter:
    """One file, taken apart once. It was read with every offset checked before (`read_model`)."""

    def __init__(self, data: bytes) -> None:
        with foreign("take the file apart", "ai-edge-litert"):
            from ai_edge_litert import schema_py_generated as schema

            self._schema: Any = schema
            self._model: Any = schema.ModelT.InitFromPackedBuf(data, 0)

    def cut(
        self, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> tuple[bytes, dict[int, int]]:
        """A file of these operators, with only the buffers they read; and where each tensor is in it."""
        with foreign("cut the file", "ai-edge-litert"):
            return self._cut(operators, inputs, outputs)

    def _cut(
        self, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> tuple[bytes, dict[int, int]]:
        import flatbuffers

        whole = self._model.subgraphs[0]
        chosen = [copy.copy(whole.operators[i]) for i in operators]
        used: dict[int, None] = dict.fromkeys([*inputs, *outputs])
        for op in chosen:
            for part in (op.inputs, op.outputs, op.intermediates):
                used.update(dict.fromkeys(int(t) for t in (part if part is not None else ()) if t >= 0))
        place = {tensor: i for i, tensor in enumerate(used)}
        made, graph = self._schema.ModelT(), self._schema.SubGraphT()
        made.version, made.description = self._model.version, b"part"
        made.operatorCodes = self._model.operatorCodes
        made.buffers = [self._schema.BufferT()]
        graph.tensors = []
        for tensor in used:
            held = copy.copy(whole.tensors[tensor])
            stored = self._model.buffers[held.buffer]
            held.buffer = 0
            if tensor not in inputs and stored.data is not None and len(stored.data):
                held.buffer = len(made.buffers)
                made.buffers.append(stored)
            graph.tensors.append(held)
        for op in chosen:
            for name in ("inputs", "outputs", "intermediates"):
                part = getattr(op, name)
                if part is not None:
                    setattr(op, name, [place[int(t)] if t >= 0 else -1 for t in part])
        graph.operators = chosen
        graph.inputs = [place[t] for t in inputs]
        graph.outputs = [place[t] for t in outputs]
        made.subgraphs = [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(made.Pack(builder), b"TFL3")
        return bytes(builder.Output()), place
