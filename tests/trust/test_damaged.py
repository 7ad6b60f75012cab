"""Damaged files of every kind are read or refused in words: what a long run found, and a short one."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from tools.fuzz_readers import READERS, fuzz

from twinnet.errors import UsageError
from twinnet.executorch.dump import DebugBuffer, TensorAt
from twinnet.inputs.images import read_image
from twinnet.lut.npy import read_array
from twinnet.lut.pictures import read_picture
from twinnet.network import load_network
from twinnet.network.sniff import sniff

SLOW = (
    *("pt2", "run folder", "recording", "profile", "bundle", "bundle members", "debug buffer"),
    # What is damaged is made first, by a converter that takes ten seconds to start.
    *("tflite", "pte"),
)
QUICK = [name for name in READERS if name not in SLOW]


@pytest.mark.parametrize("name", QUICK)
def test_a_short_run(name: str, tmp_path: Path) -> None:
    row = fuzz(name, READERS[name], 20, 11, tmp_path)
    assert (row.traces, row.crashes, row.hangs) == (0, 0, 0), row.kinds
    assert row.read + row.refused == 20


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_longer_run(name: str, tmp_path: Path) -> None:
    row = fuzz(name, READERS[name], 1000, 12, tmp_path)
    assert (row.traces, row.crashes, row.hangs) == (0, 0, 0), row.kinds


def test_a_name_that_is_not_text(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu-1")], "g", values[:1], values[1:]
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(data.replace(b"relu-1", b"relu\xff1"))
    assert onnx.load(str(tmp_path / "net.onnx")).graph.node
    with pytest.raises(UsageError, match="not text"):
        load_network(str(tmp_path / "net.onnx"))


def test_an_archive_whose_names_are_not_text(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez(file, some_name=np.ones(3))
    for path in (tmp_path / "net.pt2", tmp_path / "x.npz"):
        path.write_bytes(file.getvalue().replace(b"some_name", b"some\xffname"))
        with pytest.raises(UsageError):
            load_network(str(path))
    assert sniff(tmp_path / "net.pt2") is None


def test_a_header_that_never_ends(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,"
    (tmp_path / "x.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(12)
    )
    with pytest.raises(UsageError, match="not a readable"):
        read_array(tmp_path / "x.npy")


def test_more_pixels_than_bytes_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "x.gif"
    Image.new("P", (4, 4)).save(path)
    data = bytearray(path.read_bytes())
    data[6:10] = struct.pack("<HH", 30_000, 30_000)
    path.write_bytes(bytes(data))
    with pytest.raises(UsageError, match="30000x30000 pixels in"):
        read_picture(path)
    with pytest.raises(UsageError):
        read_image(path, 3)


def test_a_tiff_without_a_size(tmp_path: Path) -> None:
    path = tmp_path / "x.tif"
    Image.new("RGB", (4, 4)).save(path)
    data = path.read_bytes()
    at = data.index(struct.pack("<HHI", 256, 4, 1))  # the entry that holds the width
    path.write_bytes(data[:at] + b"\xff\xff" + data[at + 2 :])
    with pytest.raises(UsageError):
        read_picture(path)


def test_an_empty_tensor_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "buffer.bin").write_bytes(bytes(64))
    buffer = DebugBuffer(tmp_path / "buffer.bin")
    assert buffer.array(TensorAt(6, (0, 3), (), 0)).shape == (0, 3)
    with pytest.raises(UsageError, match="impossible shape"):
        buffer.array(TensorAt(6, (0, 1 << 62), (), 0))


def test_a_video_of_no_known_format(tmp_path: Path) -> None:
    READERS["video"].make(tmp_path)
    path = tmp_path / "x.mkv"
    path.write_bytes(path.read_bytes().replace(b"V_FFV1", b"V_ZZZ1"))
    with pytest.raises(UsageError, match="does not know"):
        READERS["video"].read(path)
