"""Reading tensors out of `.pth` files without running anything that is in them.

A pickle can call any function it names. This reader resolves every name itself, to one of four harmless
things: an ordered dictionary, a description of a tensor, a description of a storage, or a *ghost* that
remembers its attributes and does nothing. Whole-module pickles of classes that do not exist here are
thereby read like any other file, and a hostile one has nothing to call. The tensors found below a ghost's
`_parameters`, `_buffers` and `_modules` are returned under the dotted names a `state_dict` would have.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError, foreign_as

__all__ = ["read_pth"]

_DTYPES = {
    "FloatStorage": np.float32, "DoubleStorage": np.float64, "HalfStorage": np.float16,
    "LongStorage": np.int64, "IntStorage": np.int32, "ShortStorage": np.int16,
    "CharStorage": np.int8, "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}  # fmt: skip
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_MAX_DEPTH = 100
_ROOM = 1 << 30


class _Ghost:
    """Stands for any object of any class: takes everything, does nothing, remembers its state."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.state: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> _Ghost:
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> _Ghost:
        return _Ghost()


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: Any
    count: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild(storage: Any, offset: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError("a tensor without a storage")
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _parameter(data: Any, *_: Any) -> Any:
    return data


class _Reader(pickle.Unpickler):
    """An unpickler that knows four names."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "collections" and name == "OrderedDict":
            return OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_tensor"):
            return _rebuild
        if module == "torch._utils" and name == "_rebuild_parameter":
            return _parameter
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        return _Ghost

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage":
            _, dtype, key, _, count = pid[:5]
            if dtype not in _DTYPES.values():
                raise pickle.UnpicklingError("a storage of an unknown type")
            return _Storage(str(key), dtype, int(count))
        if isinstance(pid, tuple) and len(pid) >= 2 and pid[0] == "module":
            return pid[1]
        raise pickle.UnpicklingError(f"an unknown kind of persistent object: {type(pid).__name__}")


def read_pth(path: str | Path) -> dict[str, np.ndarray]:
    """All tensors of a PyTorch file (zip or legacy; state dict or whole module) by dotted name."""
    source = Path(path)
    if not source.is_file():
        raise UsageError(f"no such file: {source}")
    # A damaged archive or pickle can fail in any way.
    with foreign_as(lambda error: UsageError(f"{source} is not a readable PyTorch file: {error}")):
        root, storages = _zipped(source) if zipfile.is_zipfile(source) else _legacy(source)
    tensors = {name: _resolve(tensor, storages) for name, tensor in _walk(root, "", 0)}
    if not tensors:
        raise UsageError(f"{source} holds no tensors")
    return tensors


def _zipped(path: Path) -> tuple[Any, dict[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        packed, whole = (
            sum(getattr(m, n) for m in archive.infolist()) for n in ("compress_size", "file_size")
        )
        if whole > _ROOM + 16 * packed:
            raise UsageError(f"{path}: its {packed} bytes would become {whole}")
        pickled = next((n for n in names if n.endswith("/data.pkl") or n == "data.pkl"), None)
        if pickled is None:
            raise UsageError(f"{path} is a zip file, but not one of PyTorch")
        prefix = pickled.removesuffix("data.pkl") + "data/"
        root = _Reader(io.BytesIO(archive.read(pickled))).load()
        return root, {n.removeprefix(prefix): archive.read(n) for n in names if n.startswith(prefix)}


def _legacy(path: Path) -> tuple[Any, dict[str, bytes]]:
    with path.open("rb") as file:
        if _Reader(file).load() != _LEGACY_MAGIC:
            raise UsageError(f"{path} is not a PyTorch file")
        _Reader(file).load()  # protocol version
        _Reader(file).load()  # machine facts
        seen: dict[str, _Storage] = {}

        class Remembering(_Reader):
            def persistent_load(self, pid: Any) -> Any:
                found = super().persistent_load(pid)
                if isinstance(found, _Storage):
                    seen[found.key] = found
                return found

        root = Remembering(file).load()
        keys = _Reader(file).load()
        storages = {}
        for key in keys:
            count = int.from_bytes(file.read(8), "little", signed=True)
            size = count * np.dtype(seen[str(key)].dtype).itemsize
            data = file.read(size) if size >= 0 else b""
            if count < 0 or len(data) != size:
                raise UsageError(f"{path} is truncated")
            storages[str(key)] = data
        return root, storages


def _walk(thing: Any, prefix: str, depth: int) -> Iterator[tuple[str, _Tensor]]:
    """Tensors below an object, under the names a state dict would give them."""
    if depth > _MAX_DEPTH:
        raise UsageError("its objects are nested too deeply")
    if isinstance(thing, _Tensor):
        yield prefix.removesuffix("."), thing
    elif isinstance(thing, _Ghost):
        if isinstance(thing.state, dict):
            for home in ("_parameters", "_buffers", "_modules"):
                yield from _walk(thing.state.get(home), prefix, depth + 1)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from _walk(value, f"{prefix}{key}.", depth + 1)


def _resolve(tensor: _Tensor, storages: dict[str, bytes]) -> np.ndarray:
    raw, size = storages.get(tensor.storage.key), np.dtype(tensor.storage.dtype).itemsize
    if raw is None or len(raw) % size:
        raise UsageError("a tensor has no data, or only a part of it")
    data = np.frombuffer(raw, tensor.storage.dtype)
    if (
        len(tensor.shape) != len(tensor.strides)
        or min((*tensor.shape, *tensor.strides, tensor.offset), default=0) < 0
    ):
        raise UsageError("a tensor has an impossible shape")
    if 0 in tensor.shape:
        return np.zeros(tensor.shape, data.dtype)
    end = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides))
    if end >= len(data) or int(np.prod(tensor.shape, dtype=object)) > len(data):
        raise UsageError("a tensor reaches beyond its storage")
    strides = tuple(s * data.itemsize for s in tensor.strides)
    return np.lib.stride_tricks.as_strided(data[tensor.offset :], tensor.shape, strides).copy()
