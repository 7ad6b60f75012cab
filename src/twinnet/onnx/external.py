"""Weights of an ONNX model, inside the file or beside it: checked before use, memory-mapped one at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
from onnx import TensorProto, external_data_helper, numpy_helper

from twinnet.errors import UsageError
from twinnet.onnx.graph import bodies, model_nodes

__all__ = ["ExternalSlice", "Weights", "all_tensors", "element_dtype", "external_slice"]

_PACKED = {TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1}


@dataclass(frozen=True, slots=True)
class ExternalSlice:
    """The place of a tensor's bytes in a file."""

    file: Path
    offset: int
    length: int


def all_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor that holds data: initializers and attributes, in subgraphs and functions too."""
    yield from _held(model.graph)
    for node in model_nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for body in bodies(node):
            yield from _held(body)


def _held(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)


def external_slice(tensor: TensorProto, base: Path) -> ExternalSlice:
    """The part of a file that holds `tensor`; never outside the model's folder or past the file's end."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    place = PurePosixPath(location.replace("\\", "/"))
    outside = (
        place.is_absolute() or PureWindowsPath(location).is_absolute() or ".." in place.parts or not location
    )
    file = base / location
    if not outside and not file.resolve().is_relative_to(base.resolve()):
        outside = True
    if outside:
        raise UsageError(
            f"the model keeps the data of {tensor.name!r} in {location!r}, outside its own folder; refused",
            hint="external data must be a file beside the .onnx file, not a link to another folder",
        )
    if not file.is_file():
        raise UsageError(
            f"the external data file {location!r} of the model is missing (looked in {base})",
            hint="copy it beside the .onnx file",
        )
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or _bytes(tensor))
    except ValueError as error:
        raise UsageError(f"the place of {tensor.name!r} in {location!r} is not a number: {error}") from error
    size = file.stat().st_size
    if offset < 0 or length < 0 or offset + length > size:
        raise UsageError(
            f"the external data file {file} is too short: {tensor.name!r} needs bytes {offset} to "
            f"{offset + length}, the file has {size}",
            hint="is the download complete?",
        )
    if length != _bytes(tensor):
        raise UsageError(
            f"the external data of {tensor.name!r} has {length} bytes; "
            f"{'x'.join(map(str, tensor.dims)) or 'a scalar'} of its type needs {_bytes(tensor)}"
        )
    return ExternalSlice(file, offset, length)


class Weights(Mapping[str, np.ndarray]):
    """Initializers of the main graph by name, read on access; external data is memory-mapped."""

    def __init__(self, model: onnx.ModelProto, base: Path | None) -> None:
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._base = base

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        if not external_data_helper.uses_external_data(tensor):
            return numpy_helper.to_array(tensor)
        if self._base is None:
            raise UsageError(f"the data of {name!r} is in another file, and the model's folder is unknown")
        part = external_slice(tensor, self._base)
        shape = tuple(tensor.dims)
        if tensor.data_type in _PACKED or part.length == 0:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            with part.file.open("rb") as file:
                file.seek(part.offset)
                copy.raw_data = file.read(part.length)
            copy.data_location = TensorProto.DEFAULT
            copy.ClearField("external_data")
            return numpy_helper.to_array(copy)
        dtype = element_dtype(tensor.data_type, name).newbyteorder("<")
        return np.memmap(part.file, dtype=dtype, mode="r", offset=part.offset, shape=shape or (1,)).reshape(
            shape
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _bytes(tensor: TensorProto) -> int:
    count = math.prod(tensor.dims)
    if tensor.data_type in _PACKED:
        return (count + 1) // 2
    return count * element_dtype(tensor.data_type, tensor.name).itemsize


def element_dtype(element: int, name: str) -> np.dtype:
    """numpy's dtype of an ONNX element type; `name` is the tensor's, for the error.

    >>> element_dtype(onnx.TensorProto.BFLOAT16, "x").name
    'bfloat16'
    """
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, TypeError) as error:
        raise UsageError(
            f"{name!r} has element type {element}, which onnx {onnx.__version__} does not know"
        ) from error
