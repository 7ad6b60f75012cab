"""Convert between numpy arrays and torch tensors, including bfloat16 and 8-bit floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

__all__ = ["dtype_name", "tensor_bytes", "to_numpy", "to_tensor"]

# numpy lacks these types; ml_dtypes adds them, but torch does not convert to or from them.
_EXTRA: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
}
_BY_NAME = {np.dtype(kind).name: (dtype, bits) for dtype, (bits, kind) in _EXTRA.items()}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values as an array of the same dtype, shared where possible.

    >>> to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype.name
    'bfloat16'
    """
    tensor = tensor.detach().cpu()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype in _EXTRA:
        bits, kind = _EXTRA[tensor.dtype]
        return tensor.contiguous().view(bits).numpy().view(kind)
    return tensor.numpy()


def to_tensor(value: Any) -> torch.Tensor:
    """A tensor of the same dtype and values; arrays are copied where they cannot be shared and written to.

    >>> to_tensor(np.ones(2, ml_dtypes.bfloat16)).dtype
    torch.bfloat16
    """
    if isinstance(value, torch.Tensor):
        return value
    array = np.asarray(value)
    shape = array.shape
    array = np.ascontiguousarray(array).reshape(shape)
    if not array.flags.writeable or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), copy=True)
    if array.dtype.name in _BY_NAME:
        dtype, bits = _BY_NAME[array.dtype.name]
        return torch.from_numpy(array.view(np.dtype(str(bits).removeprefix("torch.")))).view(dtype)
    return torch.from_numpy(array)


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """The tensor's values as raw bytes in row-major order, for hashing.

    >>> bytes(tensor_bytes(torch.tensor([1, 2], dtype=torch.uint8)))
    b'\\x01\\x02'
    """
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.numel() < 2:  # such a tensor counts as contiguous, whatever its stride
        flat = torch.tensor(flat.tolist(), dtype=flat.dtype)
    return flat.view(torch.uint8).numpy().data


def dtype_name(dtype: torch.dtype) -> str:
    """numpy's name of a torch dtype.

    >>> dtype_name(torch.float32), dtype_name(torch.bool)
    ('float32', 'bool')
    """
    return str(dtype).removeprefix("torch.")
