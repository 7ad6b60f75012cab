"""Between torch and numpy, bfloat16 included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch

__all__ = ["to_numpy", "to_torch"]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values; shares memory where it can.

    >>> to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype
    dtype(bfloat16)
    """
    tensor = tensor.detach().cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_sparse or tensor.is_quantized:
        tensor = tensor.dequantize() if tensor.is_quantized else tensor.to_dense()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def to_torch(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor; shares memory where it can, and never writes to it."""
    array = np.asarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(_writable(array.view(np.int16))).view(torch.bfloat16)
    if array.dtype in (np.uint16, np.uint32, np.uint64):
        array = array.astype(np.int64)
    return torch.from_numpy(_writable(array))


def _writable(array: np.ndarray) -> np.ndarray:
    # torch refuses negative strides and warns about read-only memory (a user's array; our own maps are private).
    return array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()
