"""ONNX tensors and types as torch tensors and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, numpy_helper

from twinnet.network.arrays import to_tensor

__all__ = ["array_to_torch", "dtype_from_onnx", "tensor_from_onnx"]

_DTYPES: dict[int, torch.dtype] = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.INT8: torch.int8,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.UINT8: torch.uint8,
    TensorProto.UINT16: torch.uint16,
    TensorProto.UINT32: torch.uint32,
    TensorProto.UINT64: torch.uint64,
    TensorProto.BOOL: torch.bool,
    TensorProto.FLOAT8E4M3FN: torch.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: torch.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
    TensorProto.INT4: torch.int8,  # sub-byte integers are stored in a byte
    TensorProto.UINT4: torch.uint8,
}

_HELD_IN = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}
_HELD_IN |= {"float4_e2m1fn": np.float32, "float8_e8m0fnu": np.float32}


def dtype_from_onnx(code: int) -> torch.dtype | None:
    """The torch type of an ONNX element type; None for strings, complex and exotic ones."""
    return _DTYPES.get(code)


def array_to_torch(array: Any) -> Any:
    """Convert an array to a torch tensor; arrays of strings, which torch lacks, stay arrays."""
    array = np.asarray(array)
    name = array.dtype.name
    if name in _HELD_IN:
        array = array.astype(_HELD_IN[name])
    return array if array.dtype.kind in "OSTU" else to_tensor(array)


def tensor_from_onnx(tensor: onnx.TensorProto) -> Any:
    """An initializer or attribute tensor."""
    return array_to_torch(numpy_helper.to_array(tensor))
