"""Tensors on disk: safetensors files, written in one go and read through memory maps.

The format is the public one (8 bytes of header length, a JSON header, raw little-endian data), so any reader of
safetensors opens what a check leaves behind. It is written here directly because arrays are streamed from their own
memory, without a second copy, and because bfloat16 has no numpy type of its own.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from twinnet.errors import UsageError, foreign_as
from twinnet.files import atomic_write

if TYPE_CHECKING:
    import zipfile

__all__ = ["TensorFile", "dtype_name", "numpy_dtype", "read_npz", "storable_dtype", "write_tensors"]

_CODES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
    "C64": np.dtype("<c8"),
}
_NAMES = {dtype: code for code, dtype in _CODES.items()}
_LARGEST_HEADER = 100_000_000
_ROOM = 1 << 30
"""Bytes that a compressed file may unpack to in any case; beyond, it must not be packed suspiciously well."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of that name, bfloat16 and the small floats included.

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    if name == "str":
        return np.dtype(np.str_)
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(ml_dtypes, name))


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The opposite of `numpy_dtype`."""
    return np.dtype(dtype).name


def storable_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether `write_tensors` accepts arrays of this dtype.

    >>> storable_dtype(np.dtype("float32")), storable_dtype(np.dtype("complex128"))
    (True, False)
    """
    return dtype.newbyteorder("=") in _NAMES


def write_tensors(
    path: str | Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> Path:
    """Write named arrays as one safetensors file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays: list[np.ndarray] = []
    offset = 0
    for name, array in tensors.items():
        array = np.asarray(array)
        # ascontiguousarray would turn a scalar into a vector of one.
        array = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        code = _NAMES.get(array.dtype)
        if code is None:
            raise UsageError(f"tensor {name!r} has dtype {array.dtype}, which cannot be stored")
        header[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        arrays.append(array)
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = (a.reshape(-1).view(np.uint8).data for a in arrays if a.nbytes)
    return atomic_write(path, struct.pack("<Q", len(text)), text, *data)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file. Sizes are checked before memory is taken; nothing is unpickled."""
    import zipfile

    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    # A damaged archive or header can fail in any way.
    with (
        foreign_as(lambda error: UsageError(f"{path} is not a readable .npz file: {error}")),
        zipfile.ZipFile(path) as archive,
    ):
        members = archive.infolist()
        packed, whole = (sum(getattr(m, n) for m in members) for n in ("compress_size", "file_size"))
        if whole > _ROOM + 16 * packed:
            raise ValueError(f"its {packed} bytes would become {whole}")
        return {m.filename.removesuffix(".npy"): _member(archive, m) for m in members}


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array, after its header is found to fit its size: numpy takes the memory that the header asks for."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("it holds Python objects; only arrays of numbers are read")
        if math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"the header of {member.filename} promises more than the file holds")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


class TensorFile:
    """A safetensors file whose arrays are memory-mapped one at a time.

    The header is checked before anything is trusted: sizes must agree with shapes and lie inside the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                if length > min(size - 8, _LARGEST_HEADER):
                    raise ValueError("its header is longer than the file")
                header = json.loads(file.read(length))
            if not isinstance(header, dict):
                raise ValueError("its header is not a table")
            self.metadata: dict[str, str] = header.pop("__metadata__", {})
            self._start = 8 + length
            self._entries = {name: self._entry(name, e, size) for name, e in header.items()}
        except FileNotFoundError:
            raise UsageError(f"no such file: {self.path}") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
            raise UsageError(f"{self.path} is not a readable safetensors file: {error}") from None

    def _entry(
        self, name: str, entry: dict[str, Any], size: int
    ) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
        dtype = _CODES.get(entry["dtype"])
        if dtype is None:
            raise ValueError(f"tensor {name!r} has the unknown dtype {entry['dtype']!r}")
        shape = tuple(int(n) for n in entry["shape"])
        begin, end = (int(n) for n in entry["data_offsets"])
        if min(shape, default=0) < 0 or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"tensor {name!r} has a size that does not fit its shape")
        if begin < 0 or self._start + end > size:
            raise ValueError(f"tensor {name!r} lies beyond the end of the file (truncated?)")
        return dtype, shape, begin, end

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def keys(self) -> list[str]:
        """Tensor names in file order."""
        return list(self._entries)

    def nbytes(self, name: str) -> int:
        """Size of one tensor."""
        _, _, begin, end = self._entries[name]
        return end - begin

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape, begin, end = self._entries[name]
        if begin == end:
            return np.empty(shape, dtype)
        # Mapped anew for each tensor, so that its pages go with it. Private: torch wants writable memory, and
        # nothing written to it could reach the file.
        return (
            np.memmap(self.path, np.uint8, "c", self._start + begin, (end - begin,))
            .view(dtype)
            .reshape(shape)
        )
