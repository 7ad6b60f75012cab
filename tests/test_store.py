"""Tensors on disk: written whole, read through maps, refused when damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from twinnet.errors import UsageError
from twinnet.store import TensorFile, dtype_name, numpy_dtype, write_tensors

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", ">f4", ">i8"]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(DTYPES).flatmap(
        lambda d: hnp.arrays(np.dtype(d), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    )
)
def test_there_and_back(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    path = write_tensors(tmp_path_factory.mktemp("s") / "t.safetensors", {"a": array, "b": array.T})
    found = TensorFile(path)
    assert found.keys() == ["a", "b"] and "a" in found and "c" not in found
    for name, want in (("a", array), ("b", array.T)):
        assert found[name].shape == want.shape and found[name].dtype == want.dtype.newbyteorder("=")
        assert np.array_equal(found[name], want, equal_nan=want.dtype.kind in "fc")
        assert found.nbytes(name) == want.nbytes


def test_bfloat16(tmp_path: Path) -> None:
    array = np.array([1.5, -2, np.nan], ml_dtypes.bfloat16)
    found = TensorFile(write_tensors(tmp_path / "t.safetensors", {"a": array}))["a"]
    assert found.dtype == ml_dtypes.bfloat16 and found.tobytes() == array.tobytes()


def test_other_readers_open_it(tmp_path: Path) -> None:
    tensors = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(7, np.int64)}
    found = load_file(write_tensors(tmp_path / "t.safetensors", tensors, {"who": "test"}))
    assert all(np.array_equal(found[n], tensors[n]) for n in tensors)
    assert TensorFile(tmp_path / "t.safetensors").metadata == {"who": "test"}


def test_a_map_can_be_written_to_without_reaching_the_file(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "t.safetensors", {"x": np.zeros(3, np.float32)})
    TensorFile(path)["x"][0] = 5
    assert TensorFile(path)["x"][0] == 0


def test_what_has_no_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'x' has dtype complex128"):
        write_tensors(tmp_path / "t.safetensors", {"x": np.zeros(2, np.complex128)})
    assert list(tmp_path.iterdir()) == []


def _file(header: Any, data: bytes = b"\0" * 8, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _entry(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\x02",
        _file(_entry(), length=1 << 40),
        _file(_entry(), b"\0" * 7),
        _file(_entry(dtype="Q4")),
        _file(_entry(dtype=["F32"])),
        _file(_entry(shape=[3])),
        _file(_entry(shape=[-2])),
        _file(_entry(shape=None)),
        _file(_entry(data_offsets=[8, 16])),
        _file(_entry(data_offsets=[-8, 0])),
        _file(_entry(data_offsets=[0])),
        _file({"x": 3}),
        _file([1, 2]),
        _file(b"{not json"),
        _file(b"\xff\xfe"),
        _file(b"[" * 100_000),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="is not a readable safetensors file"):
        TensorFile(path)


def test_truncated_anywhere(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "t.safetensors", {"x": np.ones(5, np.float32)})
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(UsageError):
            TensorFile(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        TensorFile(tmp_path / "none.safetensors")


@pytest.mark.parametrize("name", ["float32", "bfloat16", "bool", "int64", "uint8", "float16"])
def test_names_of_dtypes(name: str) -> None:
    assert dtype_name(numpy_dtype(name)) == name
