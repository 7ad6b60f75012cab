"""Editing TFLite files: what every planted fault needs, in a few lines each."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["TfliteEdit"]


class TfliteEdit:
    """One file taken apart. Operators are found by code name and order."""

    def __init__(self, data: bytes) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema: Any = schema
        self.model: Any = schema.ModelT.InitFromPackedBuf(data, 0)
        self.graph: Any = self.model.subgraphs[0]
        self._names = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}

    def code(self, op: Any) -> str:
        """The name of an operator's code."""
        code = self.model.operatorCodes[op.opcodeIndex]
        return self._names[max(code.builtinCode, code.deprecatedBuiltinCode)]

    def operators(self, name: str) -> list[Any]:
        """All operators of a name, in order."""
        return [op for op in self.graph.operators if self.code(op) == name]

    def become(self, op: Any, name: str) -> None:
        """Another operator in its place, with the same options."""
        code = self.schema.OperatorCodeT()
        number = getattr(self.schema.BuiltinOperator, name)
        code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
        op.opcodeIndex = len(self.model.operatorCodes)
        self.model.operatorCodes.append(code)

    def tensor(self, op: Any, place: int) -> Any:
        """An operand."""
        return self.graph.tensors[op.inputs[place]]

    def constant(self, op: Any, place: int) -> np.ndarray:
        """A constant operand."""
        tensor = self.tensor(op, place)
        kind = {0: np.float32, 2: np.int32, 9: np.int8, 7: np.int16, 4: np.int64}[tensor.type]
        data = np.asarray(self.model.buffers[tensor.buffer].data, np.uint8)
        return data.view(kind).reshape([int(n) for n in tensor.shape]).copy()

    def give(self, op: Any, place: int, value: np.ndarray) -> None:
        """Another constant for this operator only."""
        import copy

        tensor = copy.copy(self.tensor(op, place))
        buffer = self.schema.BufferT()
        buffer.data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        tensor.buffer = len(self.model.buffers)
        tensor.name = tensor.name + b"_planted"
        self.model.buffers.append(buffer)
        inputs = [int(t) for t in op.inputs]
        inputs[place] = len(self.graph.tensors)
        op.inputs = inputs
        self.graph.tensors.append(tensor)

    def output(self, op: Any) -> Any:
        """The tensor that an operator makes."""
        return self.graph.tensors[op.outputs[0]]

    def rename(self) -> dict[str, str]:
        """Names that say nothing; the new one of each."""
        found = {}
        for number, tensor in enumerate(self.graph.tensors):
            found[tensor.name.decode()] = f"t{number}"
            tensor.name = f"t{number}".encode()
        self.model.signatureDefs = None
        return found

    def data(self) -> bytes:
        """The file."""
        import flatbuffers

        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
