"""`.lut.safetensors`: they keep everything, and every defect is told by name."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.lut.zoo import CASES, random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.band import band_index
from twinnet.lut.file import LutFile, read, write
from twinnet.lut.plan import Plan


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
    facts = json.loads(metadata["plan"])["tables"][table]
    index = band_index(facts["nodes"], facts["near"], facts["width"])
    index[0, 0, 0] = 10**6
    _refused(tmp_path, {**arrays, f"{table}.index": index}, metadata, "index does not fit")
    plan = json.loads(metadata["plan"])
    plan["stages"][0]["terms"][0]["sample"]["offsets"][0] = [0]
    _refused(tmp_path, arrays, {**metadata, "plan": json.dumps(plan)}, "damaged")
    plan = json.loads(metadata["plan"])
    plan["tables"][table]["nodes"] = -4
    _refused(tmp_path, arrays, {**metadata, "plan": json.dumps(plan)}, "impossible")
    plan["tables"][table] |= {"nodes": 255, "near": 3}  # 4 G cells, had they to be listed
    _refused(tmp_path, arrays, {**metadata, "plan": json.dumps(plan)}, "impossible")


def test_the_index_of_a_band_is_not_stored_but_read_where_it_is(tmp_path, parts, noise):
    arrays, metadata = parts
    assert not [name for name in arrays if name.endswith(".index")]
    new = read(tmp_path / "good.lut.safetensors")
    older = tmp_path / "older.lut.safetensors"
    indices = {
        f"{name}.index": t.index.astype(np.int32)
        for name, t in new.plan.tables.items()
        if t.index is not None
    }
    assert indices
    save_file({**arrays, **indices}, older, metadata)
    assert lut.diff(read(older).plan, new.plan).same
    assert np.array_equal(lut.load(older)(noise), lut.load(tmp_path / "good.lut.safetensors")(noise))
    assert write(read(older), tmp_path / "again.lut.safetensors").stat().st_size < older.stat().st_size


def test_a_band_in_another_order_keeps_its_index(tmp_path, noise):
    content = LutFile.of(random_net("auto-mulut", True))
    name, table = next((n, t) for n, t in content.plan.tables.items() if t.banded)
    cells, rest = int(table.index.max()) + 1, table.nodes ** (table.axes - 1 - table.near)
    values = table.values.reshape(cells, rest, -1)[::-1].reshape(table.values.shape).copy()
    turned = replace(table, values=values, index=np.where(table.index < 0, -1, cells - 1 - table.index))
    plan = Plan.build(content.plan.stages, {**content.plan.tables, name: turned})
    path = write(replace(content, plan=plan), tmp_path / "turned.lut.safetensors")
    assert np.array_equal(read(path).plan.tables[name].index, turned.index)
    assert np.array_equal(lut.load(path)(noise), lut.LutModel(content)(noise))


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
