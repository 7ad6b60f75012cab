"""`.lut.safetensors`: they keep everything, and every defect is told by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.lut.zoo import CASES, random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.file import LutFile, read, write


@pytest.mark.parametrize(("name", "compressed"), [(n, False) for n in CASES] + [("auto-spf", True)])
def test_files_keep_the_network(tmp_path, noise, name, compressed):
    net = random_net(name, compressed)
    path = lut.save(net, tmp_path / "net.lut.safetensors", notes=("made in a test",))
    content = read(path)
    assert content.plan.stages == lut.lower(net).stages
    assert content.notes == ("made in a test",) and len(content.network) == 64
    assert np.array_equal(lut.load(path, executor="reference")(noise), net.predict(noise))
    again = content.net()
    assert np.array_equal(again.predict(noise), net.predict(noise))
    assert lut.diff(lut.lower(again), content.plan).same
    assert [p.name for p in tmp_path.iterdir()] == ["net.lut.safetensors"]


@pytest.fixture
def parts(tmp_path):
    """The tensors and metadata of a good file, to be damaged."""
    path = lut.save(random_net("auto-mulut", True), tmp_path / "good.lut.safetensors")
    with safe_open(str(path), framework="numpy") as opened:
        return {k: opened.get_tensor(k) for k in opened.keys()}, opened.metadata()  # noqa: SIM118


def _refused(tmp_path, arrays, metadata, message):
    path = tmp_path / "bad.lut.safetensors"
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path, metadata)
    with pytest.raises(UsageError, match=message):
        lut.load(path)


def test_damaged_files_are_refused(tmp_path, parts):
    arrays, metadata = parts
    table = "stage1.in_c0.b0"
    sampler = next(k for k in arrays if k.endswith("logits"))
    _refused(tmp_path, {**arrays, table: arrays[table][:-1]}, metadata, "does not fit the")
    _refused(tmp_path, {**arrays, table: arrays[table].astype(np.float32)}, metadata, "float32, not int8")
    _refused(tmp_path, {**arrays, sampler: arrays[sampler] * np.nan}, metadata, "NaN or infinity")
    _refused(tmp_path, {**arrays, "other": arrays[table]}, metadata, "belongs to no table")
    _refused(tmp_path, {k: v for k, v in arrays.items() if k != table}, metadata, "damaged")
    _refused(
        tmp_path, {k: v for k, v in arrays.items() if k != f"{table}.coarse"}, metadata, "off-band table"
    )
    _refused(tmp_path, arrays, {**metadata, "scale": "3"}, "says x3, but its tables give x2")
    _refused(tmp_path, arrays, {**metadata, "version": "99"}, "format version 99")
    _refused(tmp_path, arrays, {}, "holds no LUT network")
    _refused(tmp_path, arrays, {**metadata, "plan": "{"}, "damaged")
    index = arrays[f"{table}.index"].copy()
    index[0, 0, 0] = 10**6
    _refused(tmp_path, {**arrays, f"{table}.index": index}, metadata, "index does not fit")
    plan = json.loads(metadata["plan"])
    plan["stages"][0]["terms"][0]["sample"]["offsets"][0] = [0]
    _refused(tmp_path, arrays, {**metadata, "plan": json.dumps(plan)}, "damaged")
    plan = json.loads(metadata["plan"])
    plan["tables"][table]["nodes"] = -4
    _refused(tmp_path, arrays, {**metadata, "plan": json.dumps(plan)}, "at least 1 axis")


@pytest.mark.parametrize("size", [0, 7, 100, 3000])
def test_truncated_files_are_refused(tmp_path, size):
    path = lut.save(random_net("srlut-V-step17"), tmp_path / "net.lut.safetensors")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UsageError, match="not a readable safetensors file"):
        lut.load(path)


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    content = LutFile.of(random_net("srlut-V-step17"))
    with pytest.raises(UsageError, match="no such folder"):
        write(content, tmp_path / "missing" / "net.lut.safetensors")
    (tmp_path / "taken.lut.safetensors").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write(content, tmp_path / "taken.lut.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["taken.lut.safetensors"]


def test_missing_file():
    with pytest.raises(UsageError, match="no such file"):
        lut.load("nowhere.lut.safetensors")
