"""Check arrays against inputs: dtype, rank, dimensions. Nothing is silently broadcast or rounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.inputs.layout import image_layout
from twinnet.network.shapes import unknown_input
from twinnet.signature import Signature, TensorSpec, dims
from twinnet.store import numpy_dtype

__all__ = ["as_array", "fit_array", "fit_sample"]


def fit_sample(
    signature: Signature, sample: Mapping[str, Any], where: str, notes: dict[str, None] | None = None
) -> dict[str, np.ndarray]:
    """The sample in the network's order and dtypes. `where` names it in errors, `notes` collects changes.

    >>> sig = Signature((TensorSpec("x", "float32", (1, "n")),))
    >>> fit_sample(sig, {"x": np.zeros((1, 3))}, "a.npy", notes := {})["x"].dtype.name, list(notes)
    ('float32', ['x: float64 cast to float32'])
    """
    notes = {} if notes is None else notes
    names = {spec.name for spec in signature.inputs}
    for name in sample:
        if name not in names:
            raise unknown_input(name, signature, where=where)
    fitted: dict[str, np.ndarray] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for spec in signature.inputs:
        if spec.name not in sample:
            if spec.optional:
                continue
            raise UsageError(
                f"{where}: input {spec.name} ({spec.dtype} {dims(spec.shape)}) is missing",
                hint=f"it gives: {', '.join(sample) or 'nothing'}",
            )
        fitted[spec.name] = array = fit_array(spec, sample[spec.name], where, notes)
        for dim, size in zip(spec.shape or (), array.shape):
            if not isinstance(dim, str) or dim == "?":
                continue
            known, first = sizes.setdefault(dim, (size, spec.name))
            if known != size:
                raise UsageError(
                    f"{where}: dimension {dim} is {known} in input {first} and {size} in input {spec.name}"
                )
    return fitted


def fit_array(spec: TensorSpec, value: Any, where: str, notes: dict[str, None]) -> np.ndarray:
    """Convert `value` for the input `spec`, or raise a `UsageError` that says what is expected and given."""
    array = as_array(value, f"{where}: input {spec.name}")
    _check_shape(spec, array.shape, where)
    array = _cast(spec, array, where, notes)
    if array.dtype.kind in "fcV" and array.size:
        bad = int(np.count_nonzero(np.isnan(array)))
        if bad:
            notes[f"{where}: input {spec.name} holds {bad} NaN"] = None
    return array


def as_array(value: Any, what: str) -> np.ndarray:
    """Convert a tensor, array, number or nested list to a numpy array; other objects are refused."""
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        from twinnet.network.arrays import to_numpy

        return to_numpy(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{what} is not an array: {error}") from error
    if array.dtype == object:
        raise UsageError(f"{what} holds Python objects ({type(value).__name__}), not numbers")
    return array


def _check_shape(spec: TensorSpec, shape: tuple[int, ...], where: str) -> None:
    if spec.shape is None:
        return
    given, wanted = dims(shape), dims(spec.shape)
    if len(shape) != len(spec.shape):
        raise UsageError(
            f"{where}: input {spec.name} has {len(spec.shape)} dimensions ({wanted}), "
            f"{len(shape)} were given ({given})"
        )
    for axis, (dim, size) in enumerate(zip(spec.shape, shape)):
        if isinstance(dim, int) and dim != size:
            raise UsageError(
                f"{where}: input {spec.name} is {wanted}; {given} was given "
                f"(dimension {axis} is {size}, not {dim})",
                hint=_turned(spec.shape, shape)
                or f"if the network can take this size, say so: --shape {spec.name}={given}",
            )


def _turned(wanted: tuple[int | str, ...], given: tuple[int, ...]) -> str:
    """What to do with a picture whose channels are at the other end; empty if that does not help."""
    for perm, words in (
        ((0, 3, 1, 2), "channels last (NHWC), and the network takes NCHW"),
        ((0, 2, 3, 1), "channels first (NCHW), and the network takes NHWC"),
    ):
        turned = [given[i] for i in perm] if len(given) == 4 else []
        if turned and all(isinstance(dim, str) or dim == size for dim, size in zip(wanted, turned)):
            return f"it looks like {words}: array.transpose{perm}"
    return ""


def _cast(spec: TensorSpec, array: np.ndarray, where: str, notes: dict[str, None]) -> np.ndarray:
    wanted = numpy_dtype(spec.dtype)
    if array.dtype == wanted or (wanted.kind == "U" and array.dtype.kind in "UT"):
        return array
    if array.dtype.newbyteorder("=") == wanted:
        return array.astype(wanted)
    nameless = array.dtype.name.startswith("void") and array.dtype.itemsize == wanted.itemsize
    if nameless and wanted.kind == "V":
        return array.view(wanted)  # .npy forgets the name of bfloat16 and of the 8-bit floats
    floats = _is_float(array.dtype)
    if array.dtype in (np.uint8, np.uint16) and _is_float(wanted) and image_layout(spec) is not None:
        notes[f"{spec.name}: {array.dtype.name} pixels scaled to [0,1]"] = None
        return (array / np.float32(np.iinfo(array.dtype).max)).astype(wanted)
    if spec.shape is None and not floats and array.dtype.kind in "iub" and _is_float(wanted):
        return array  # the dtype of an unknown input is unknown too: integers stay integers
    if floats and _is_float(wanted):
        notes[f"{spec.name}: {array.dtype.name} cast to {wanted.name}"] = None
        with np.errstate(over="ignore"):
            cast = array.astype(wanted)
        if np.isinf(cast).any() and not np.isinf(array).any():
            raise UsageError(f"{where}: input {spec.name} holds values that {wanted.name} cannot represent")
        return cast
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        if array.size and (array.min() < np.iinfo(wanted).min or array.max() > np.iinfo(wanted).max):
            raise UsageError(
                f"{where}: input {spec.name} takes {wanted.name}; "
                f"{array.dtype.name} values from {array.min()} to {array.max()} do not fit"
            )
        notes[f"{spec.name}: {array.dtype.name} cast to {wanted.name}"] = None
        return array.astype(wanted)
    raise UsageError(
        f"{where}: input {spec.name} takes {spec.dtype}, {array.dtype.name} was given",
        hint=f"convert it if that is intended: array.astype({spec.dtype!r})",
    )


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)
