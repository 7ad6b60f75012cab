"""Published tables on published images, bit for bit, and the scores that were published with them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.lut.conftest import SET5
from twinnet import lut
from twinnet.lut.grid import Grid
from twinnet.lut.published import Options, read_published
from twinnet.restore.bicubic import modcrop
from twinnet.restore.metrics import psnr_y, ssim_y
from twinnet.restore.published_weights import from_checkpoint


@pytest.fixture(scope="module")
def golden(data):
    return json.loads((data / "lut-golden" / "golden.json").read_text())


def _model(data, name: str, compat: str = "") -> lut.LutModel:
    return lut.LutModel(read_published(data / "lut-data" / name, Options(compat=compat)))


def _fit(image: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """SR-LUT's tester cuts results to the ground truth, which matters for x3."""
    return image[: shape[0], : shape[1]]


SRLUT = [
    ("S4", "Model_S_x4_4bit_int8.npy", "LR_srlut_x4", "srlut_S_x4_ref", 29.8310),
    ("S2", "Model_S_x2_4bit_int8.npy", "LR_bicubic/X2", "srlut_S_x2_ref", 35.5102),
    ("S3", "Model_S_x3_4bit_int8.npy", "LR_bicubic/X3", "srlut_S_x3_ref", 31.9799),
    ("S4b5", "Model_S_x4_5bit_int8.npy", "LR_srlut_x4", None, 29.6311),
    ("S4b6", "Model_S_x4_6bit_int8.npy", "LR_srlut_x4", None, 29.1969),
    ("S4b7", "Model_S_x4_7bit_int8.npy", "LR_srlut_x4", None, 28.5120),
    ("S4b8", "Model_S_x4_8bit_int8.npy", "LR_srlut_x4", None, 26.5434),
    ("F4", "Model_F_x4_4bit_int8.npy", "LR_srlut_x4", "srlut_F_x4_ref", 29.7852),
    ("V4", "Model_V_x4_0bit_int8.npy", "LR_srlut_x4", "srlut_V_x4_ref", 29.2350),
    ("S4transfer", "Model_S_x4_4bit_int8.from_Model_S_pth.npy", "LR_srlut_x4",
     "srlut_S_x4_transfer_table_ref", 29.8078),
]  # fmt: skip


@pytest.mark.parametrize(("key", "table", "low", "reference", "mean"), SRLUT, ids=[case[0] for case in SRLUT])
def test_srlut_reproduces_images_and_scores(data, picture, golden, key, table, low, reference, mean):
    compat = "srlut-2021" if key.startswith("S") else ""
    model = _model(data, f"SR-LUT/{table}", compat)
    scores = []
    for k, name in enumerate(SET5):
        truth = picture(data / "lut-data/Set5/HR" / f"{name}.png")
        result = _fit(model(picture(data / "lut-data/Set5" / low / f"{name}.png")), truth.shape)
        if reference is not None:
            bits = 0 if key == "V4" else 4
            expected = picture(data / "lut-golden" / reference / f"{name}_GT_LUT_interp_{bits}bit.png")
            assert np.array_equal(result, expected)
        scores.append(psnr_y(result, truth, shave=4))
        assert scores[-1] == pytest.approx(golden["srlut"][key]["psnr"][k], abs=2e-5)
    assert np.mean(scores) == pytest.approx(mean, abs=5e-5)


@pytest.mark.parametrize(
    ("compat", "which", "mean"), [("", "fixed", 29.8319), ("srlut-2021", "ref", 29.8310)]
)
def test_srlut_numerators_with_and_without_the_slip(data, picture, compat, which, mean):
    arrays = np.load(data / "lut-golden/srlut_S_x4.npz")
    model = _model(data, "SR-LUT/Model_S_x4_4bit_int8.npy", compat)
    net = model.file.net()
    scores = []
    for name in SET5:
        low = arrays[f"{name}_lr"]
        for c in range(3):
            seen = {}
            model.record(np.ascontiguousarray(low[..., c]), seen.__setitem__)
            assert np.array_equal(seen["stage1.in_c0"][0], arrays[f"{name}_N_{which}"][c])
        assert np.array_equal(model(low), arrays[f"{name}_{which}"])
        scores.append(psnr_y(model(low), picture(data / f"lut-data/Set5/HR/{name}.png"), shave=4))
    assert np.mean(scores) == pytest.approx(mean, abs=5e-5)
    assert np.array_equal(net.predict(arrays["butterfly_lr"]), arrays[f"butterfly_{which}"])


MULUT = [
    ("lut-data/MuLUT/sr_x2sdy", "mulut_x2sdy_x4_ref", "_LUT_ft_4bit", 30.6078, 0.8656),
    ("lut-golden/mulut_export_tables", "mulut_x2sdy_x4_export_no_ft", "_LUT_4bit", 30.5251, 0.8644),
    ("lut-golden/mulut_dfc_xyzt2i5", "mulut_dfc_xyzt2i5", "_ref", 30.4322, None),
]


@pytest.mark.parametrize(("tables", "reference", "ending", "psnr", "ssim"), MULUT, ids=["ft", "raw", "dfc"])
def test_mulut_reproduces_images_and_scores(data, picture, tables, reference, ending, psnr, ssim):
    model = lut.load(data / tables)
    found = []
    for name in SET5:
        truth = modcrop(picture(data / f"lut-data/Set5/HR/{name}.png"), 4)
        result = model(picture(data / f"lut-data/Set5/LR_bicubic/X4/{name}.png"))
        assert np.array_equal(result, picture(data / "lut-golden" / reference / f"{name}{ending}.png"))
        found.append((psnr_y(result, truth, shave=4), ssim_y(result, truth)))
    assert np.mean(found, axis=0)[0] == pytest.approx(psnr, abs=5e-5)
    if ssim is not None:
        assert np.mean(found, axis=0)[1] == pytest.approx(ssim, abs=5e-5)


def test_mulut_first_stage_planes(data):
    arrays = np.load(data / "lut-golden/mulut_x2sdy_x4.npz")
    model = lut.load(data / "lut-data/MuLUT/sr_x2sdy")
    for name in SET5:
        low, stage = arrays[f"{name}_lr"], arrays[f"{name}_stage1"]
        for c in range(3):
            seen = {}
            model.record(np.ascontiguousarray(low[..., c]), seen.__setitem__)
            assert np.array_equal(seen["stage1"][0], stage[..., c] if stage.shape[-1] == 3 else stage[c])


def test_torch_tables_reproduce_mulut_and_dfc(data, picture):
    low = picture(data / "lut-data/Set5/LR_bicubic/X4/butterfly.png")
    net = lut.load(data / "lut-data/MuLUT/sr_x2sdy").file.net()
    expected = picture(data / "lut-golden/mulut_x2sdy_x4_ref/butterfly_LUT_ft_4bit.png")
    assert np.array_equal(net.predict(low), expected)
    expected = picture(data / "lut-golden/mulut_dfc_xyzt2i5/butterfly_ref.png")
    assert np.array_equal(lut.compress(net).predict(low), expected)


def test_compressing_gives_the_published_compressed_tables(data):
    ours = lut.compress(lut.load(data / "lut-data/MuLUT/sr_x2sdy").plan)
    theirs = lut.load(data / "lut-golden/mulut_dfc_xyzt2i5").plan
    assert lut.diff(ours, theirs).same
    index = np.load(data / "lut-golden/mulut_dfc_xyzt2i5/ref2index_xyzt2i5.npy")
    for name, table in ours.tables.items():
        assert np.array_equal(table.values, theirs.tables[name].values)
        assert np.array_equal(table.coarse, theirs.tables[name].coarse)
        assert np.array_equal(table.index, index)


def test_srlut_network_outputs(data, picture):
    """A float network: equal up to the order of summation, and rounded alike except beside a tie."""
    arrays = np.load(data / "lut-golden/dnn_outputs.npz")
    net = from_checkpoint(data / "lut-data/SR-LUT/Model_S.pth")
    for name in SET5:
        seen: dict[str, torch.Tensor] = {}
        result = net.predict(picture(data / f"lut-data/Set5/LR_srlut_x4/{name}.png"), seen.__setitem__)
        levels = np.moveaxis(seen["stage1.in_c0"][:, 0].numpy(), 0, -1)
        floats = arrays[f"srlut_dnn_float_{name}"]
        assert np.abs(levels - floats).max() < 5e-4
        off = result != arrays[f"srlut_dnn_{name}"]
        assert off.mean() < 5e-5
        assert (np.abs(np.abs(floats - np.floor(floats)) - 0.5)[off] < 5e-4).all()


@pytest.mark.parametrize("name", ["butterfly"])
def test_mulut_network_outputs(data, picture, name):
    expected = np.load(data / "lut-golden/dnn_outputs.npz")[f"mulut_dnn_{name}"]
    net = from_checkpoint(data / "lut-data/MuLUT/sr_x2sdy/Model_200000.pth")
    result = net.predict(picture(data / f"lut-data/Set5/LR_bicubic/X4/{name}.png"))
    gap = np.abs(result.astype(int) - expected)
    assert gap.max() <= 1 and (gap > 0).mean() < 1e-4


@pytest.mark.slow
def test_mulut_network_scores(data, picture, golden):
    arrays = np.load(data / "lut-golden/dnn_outputs.npz")
    net = from_checkpoint(data / "lut-data/MuLUT/sr_x2sdy/Model_200000.pth")
    scores = []
    for name in SET5:
        result = net.predict(picture(data / f"lut-data/Set5/LR_bicubic/X4/{name}.png"))
        gap = np.abs(result.astype(int) - arrays[f"mulut_dnn_{name}"])
        # A few pixels between the stages may round to the other side, as the processor and its threads add up; the
        # second stage makes more of each.
        assert gap.max() <= 3 and (gap > 0).mean() < 3e-4
        scores.append(psnr_y(result, modcrop(picture(data / f"lut-data/Set5/HR/{name}.png"), 4), shave=4))
    assert np.mean(scores) == pytest.approx(30.6062, abs=5e-5)


def test_reexported_srlut_table(data):
    net = from_checkpoint(data / "lut-data/SR-LUT/Model_S.pth")
    table = lut.tabulate(next(lut.units(net))[1], Grid.bits(4, last=255))
    published = np.load(data / "lut-data/SR-LUT/Model_S_x4_4bit_int8.from_Model_S_pth.npy").reshape(83521, 16)
    gap = np.abs(table.values.astype(int) - published)
    assert np.count_nonzero(gap) <= 20 and gap.max() <= 1


def test_reexported_mulut_tables(data):
    net = lut.export(
        from_checkpoint(data / "lut-data/MuLUT/sr_x2sdy/Model_200000_state.npz"), grid=Grid.bits(4, 255)
    )
    for path, unit in lut.units(net):
        stage, branch = path[5], "sdy"[int(path[path.index(".b") + 2])]
        published = np.load(data / f"lut-golden/mulut_export_tables/LUT_x4_4bit_int8_s{stage}_{branch}.npy")
        gap = np.abs(unit.as_table().values.astype(int) - published.reshape(83521, -1))
        assert np.count_nonzero(gap) <= 40 and gap.max() <= 1
