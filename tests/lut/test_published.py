"""Readers of the published layouts: our own networks written that way read back as the same plan."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.grid import infer_nodes
from twinnet.lut.plan import Table
from twinnet.lut.published import Options, read_published
from twinnet.restore.nets import auto, mulut, spf


def _random(net, compressed=False):
    rng = np.random.default_rng(3)
    torch.manual_seed(0)
    for _, unit in lut.units(net):
        unit.set_table(Table(rng.integers(-127, 128, (17**4, unit.outputs)).astype(np.int8), 4, 17, 16, 255))
    return lut.compress(net) if compressed else net


def _write(path, unit, compressed: bool):
    table = unit.as_table()
    if compressed and table.banded:
        np.save(f"{path}_compress1.npy", table.values)
        np.save(f"{path}_compress2.npy", table.coarse)
    else:
        np.save(f"{path}.npy", table.values)


def _same(content, net, noise):
    expected = lut.lower(net)
    assert content.plan.stages == expected.stages
    assert lut.diff(content.plan, expected).same
    assert np.array_equal(lut.LutModel(content)(noise), net.predict(noise))


@pytest.mark.parametrize("compressed", [False, True])
def test_spf_folder(tmp_path, noise, compressed):
    net = _random(spf.build("sd", 2, width=4), compressed)
    for path, unit in lut.units(net):
        stage, *rest = path.split(".")
        if stage == "channel":
            np.save(tmp_path / "spf_s5_channel.npy", unit.as_table().values)
            continue
        number = 6 if stage == "upblock" else int(stage[-1])
        _write(tmp_path / f"spf_s{number}c{rest[0][-1]}_{'sd'[int(rest[1][1])]}", unit, compressed)
    content = read_published(tmp_path)
    assert content.name == "spf" and content.plan.scale == 2
    _same(content, net, noise)


def test_auto_mulut_folder_counts_stages_from_zero(tmp_path, noise):
    net = _random(auto.build_mulut(2, 2, 2, window=3, width=4))
    for path, unit in lut.units(net):
        stage, branch = int(path[5]) - 1, path[path.index(".b") + 2]
        unit.grid = lut.Grid.bits(4, 256)
        home = net.get_submodule(path.removesuffix(".unit"))
        name = f"LUT_ft_x2_4bit_int8_s{stage}_{branch}"
        np.save(tmp_path / f"{name}.npy", unit.as_table().values)
        np.save(tmp_path / f"{name}_sampler.npy", home.sample.logits.detach().numpy().reshape(4, 1, 3, 3))
        if home.residual is not None:
            torch.nn.init.uniform_(home.residual.weight)
            np.save(tmp_path / f"{name}_residual.npy", home.residual.weight.detach().numpy().reshape(2, 2))
    content = read_published(tmp_path)
    assert content.name == "auto-mulut-2" and "last node assumed as 256" in content.notes
    _same(content, net, noise)
    assert np.array_equal(content.net().predict(noise), net.predict(noise))
    np.save(tmp_path / "LUT_ft_x2_4bit_int8_s0_0_sampler.npy", np.zeros((4, 1, 3, 3), np.int8))
    with pytest.raises(UsageError, match="int8"):
        read_published(tmp_path)


def test_auto_spf_folder(tmp_path, noise):
    net = _random(auto.build_spf(1, 2, window=5, width=4))
    for path, unit in lut.units(net):
        stage, *rest = path.split(".")
        if stage == "channel":
            np.save(tmp_path / "weight_s5_channel.npy", unit.as_table().values)
            continue
        number = 6 if stage == "upblock" else int(stage[-1])
        key = f"s{number}c{rest[0][-1]}_s"
        home = net.get_submodule(path.removesuffix(".unit"))
        np.save(tmp_path / f"weight_{key}.npy", unit.as_table().values)
        np.save(tmp_path / f"sampler_{key}.npy", home.sample.logits.detach().numpy().reshape(4, 1, 5, 5))
        weight = np.zeros(4, np.float32) if home.residual is None else np.full(4, 0.3, np.float32)
        if home.residual is not None:
            home.residual.weight.data[:] = 0.3
        np.save(tmp_path / f"residual_{key}.npy", weight.reshape(2, 2))
    with pytest.raises(UsageError, match="other tables here have a sampler"):
        (tmp_path / "sampler_s3c0_s.npy").rename(tmp_path / "elsewhere")
        read_published(tmp_path)
    (tmp_path / "elsewhere").rename(tmp_path / "sampler_s3c0_s.npy")
    _same(read_published(tmp_path), net, noise)


def test_mulut_folder_with_several_sets(tmp_path):
    for ending, seed in (("LUT_x2", 0), ("LUT_ft_x2", 1)):
        net = _random(mulut.build("s", 2, 2, width=4))
        for path, unit in lut.units(net):
            values = np.roll(unit.as_table().values, seed, axis=0)
            np.save(tmp_path / f"{ending}_4bit_int8_s{path[5]}_s.npy", values)
    content = read_published(tmp_path)
    assert any("'LUT_ft_x2_4bit_int8' chosen" in note for note in content.notes)
    other = read_published(tmp_path, Options(lut="LUT"))
    assert not lut.diff(content.plan, other.plan).same
    with pytest.raises(UsageError, match="no tables 'nothing'"):
        read_published(tmp_path, Options(lut="nothing"))
    (tmp_path / "LUT_ft_x2_4bit_int8_s1_s.npy").unlink()
    with pytest.raises(UsageError, match="stages \\[2\\]: some are missing"):
        read_published(tmp_path)


def test_bad_tables(tmp_path):
    good = np.zeros((17**4, 1, 2, 2), np.int8)
    cases = {
        "Model_S_x2_4bit_int8.npy": (good[:-1], "83520 rows"),
        "Model_S_x4_4bit_int8.npy": (good, "the name says x4"),
        "float.npy": (good.astype(np.float32), "table of float32, not int8"),
        "nan.npy": (np.full((17**4, 4), np.nan), "with NaN in it"),
        "odd.npy": (np.zeros((17**4, 3), np.int8), "not a square block"),
        "flat.npy": (np.zeros(17**4, np.int8), "not \\[rows, values\\]"),
        "wide.npy": (np.zeros((5**1, 4), np.int8), "not a published layout"),
    }
    for name, (array, message) in cases.items():
        np.save(tmp_path / name, array)
        with pytest.raises(UsageError, match=message):
            read_published(tmp_path / name)
    np.save(tmp_path / "ok.npy", good)
    assert read_published(tmp_path / "ok.npy").plan.scale == 2
    with pytest.raises(UsageError, match="tables for x2, not x3"):
        read_published(tmp_path / "ok.npy", Options(scale=3))
    whole = (tmp_path / "ok.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:5000])
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name in ("cut.npy", "objects.npy"):
        with pytest.raises(UsageError, match="is not a readable"):
            read_published(tmp_path / name)
    with pytest.raises(UsageError, match="no such file or folder"):
        read_published(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"holds no tables\n.*names look like"):
        read_published(tmp_path / "empty")


def test_a_mixed_folder_of_two_scales_is_refused(data, tmp_path):
    shutil.copytree(data / "lut-data/MuLUT/sr_x2sdy", tmp_path / "mixed")
    np.save(tmp_path / "mixed/LUT_ft_x4_4bit_int8_s2_d.npy", np.zeros((17**4, 4), np.int8))
    with pytest.raises(UsageError, match="4 values per row, but 1 channel"):
        read_published(tmp_path / "mixed")


def test_rows_tell_the_grid():
    assert infer_nodes(16)[1].nodes == 2 and infer_nodes(81)[1].nodes == 3 and infer_nodes(4913)[0] == 3
    with pytest.raises(UsageError, match="83520 rows"):
        infer_nodes(83520)


def test_random_net_is_not_constant(noise):
    assert random_net("mulut-sdy").predict(noise).std() > 5
