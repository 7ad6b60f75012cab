"""Reading published `.npy` tables safely."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinnet.errors import UsageError, foreign_as

__all__ = ["read_array", "read_floats", "read_int8"]


def read_array(path: Path) -> np.ndarray:
    """One array, never unpickled; anything unreadable is a `UsageError`."""
    # A damaged header can fail in any way; mapped, so that it cannot ask for more memory than there is file.
    with foreign_as(lambda error: UsageError(f"{path} is not a readable .npy file: {error}")):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{path} holds several arrays, not one table")
    return np.array(array)


def read_int8(path: Path) -> np.ndarray:
    """A table as int8 [rows, payload], whatever axes the payload was saved with."""
    array = read_array(path)
    if array.dtype != np.int8:
        bad = " with NaN in it" if array.dtype.kind == "f" and np.isnan(array).any() else ""
        raise UsageError(
            f"{path} is a table of {array.dtype}{bad}, not int8",
            hint="deployed tables hold round(127 * output) as int8; export or quantise the table first",
        )
    if array.ndim < 2 or array.size == 0:
        raise UsageError(f"{path} has shape {list(array.shape)}, not [rows, values]")
    return np.ascontiguousarray(array.reshape(array.shape[0], -1))


def read_floats(path: Path) -> np.ndarray:
    """Float weights of a sampler or a residual, all finite."""
    array = read_array(path)
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise UsageError(
            f"{path} is {array.dtype} or holds NaN or infinity, not float weights",
            hint="a published script saves samplers as int8, which destroys them: use its checkpoint",
        )
    return array.astype(np.float32)
