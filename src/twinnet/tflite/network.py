"""A TFLite file as a network."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.network.base import Network
from twinnet.signature import Signature, TensorSpec
from twinnet.tflite.model import Model, Tensor, read_model

__all__ = ["TfliteNetwork"]

_INDICES = ("int32", "int64", "bool", "str", "resource", "variant", "uint32", "uint64")


class TfliteNetwork(Network):
    """A TFLite file. `data` are its bytes, `model` what they say."""

    format = "TFLite"

    def __init__(self, data: bytes, *, name: str = "", path: Path | None = None) -> None:
        self.data = data
        self.model: Model = read_model(data, str(path) if path is not None else "the TFLite model")
        graph = self.model.main
        signature = Signature(
            tuple(_spec(label, graph.tensors[t]) for label, t in self.model.inputs),
            tuple(_spec(label, graph.tensors[t]) for label, t in self.model.outputs),
        )
        super().__init__(
            name or (path.stem if path is not None else "model"),
            signature,
            parameters=_count(self.model),
            path=path,
        )

    @classmethod
    def load(cls, path: Path, *, name: str = "") -> TfliteNetwork:
        """Read a .tflite file."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        return cls(data, name=name, path=path)

    @cached_property
    def quantised(self) -> str:
        """The number format of its quantised tensors, "int8" or "int16"; empty if there are none."""
        graph = self.model.main
        kinds = {t.dtype for t in graph.tensors if t.steps is not None}
        if kinds & {"int8", "uint8", "int4", "int2", "uint4"}:
            return "int8"
        return "int16" if "int16" in kinds else ""


def _spec(name: str, tensor: Tensor) -> TensorSpec:
    return TensorSpec(name, tensor.dtype, tensor.shape)


def _count(model: Model) -> int:
    """Elements of stored tensors of rank 1 and more that are not indices; quantised biases count."""
    held = (t for t in model.main.tensors if t.data is not None)
    weights = (t for t in held if t.dtype not in _INDICES or t.steps is not None)
    return sum(math.prod(int(n) for n in t.shape or ()) for t in weights)
