"""Published tables on published images: all pixels equal, natively and on the numpy path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twinnet.lut.executors import make
from twinnet.lut.plan import INPUT, Plan, Plane, Requant, Sample, Stage, Table, Term

IMAGES = ("baby", "bird", "butterfly", "head", "woman")
PATTERNS = {
    "s": ((0, 0), (0, 1), (1, 0), (1, 1)),
    "d": ((0, 0), (0, 2), (2, 0), (2, 2)),
    "y": ((0, 0), (1, 1), (1, 2), (2, 1)),
    "V": ((0, 0), (0, 1)),
    "F": ((0, 0), (0, 1), (0, 2)),
}
SRLUT = Requant("srlut", (("div", 255), ("clip", 0, 1), ("mul", 255), ("round",)))


def srlut(values: np.ndarray, pattern: str, scale: int, compat: str = "") -> Plan:
    axes = len(PATTERNS[pattern])
    nodes = round(len(values) ** (1 / axes))
    table = Table(values.reshape(len(values), -1), axes, nodes, 256 // (nodes - 1))
    sample = Sample((Plane(INPUT),), PATTERNS[pattern], "reflect")
    return Plan.build(
        [Stage("stage1", (Term(sample, "t", compat=compat),), SRLUT, upscale=scale)], {"t": table}
    )


def mulut(tables: dict[str, Table]) -> Plan:
    terms = {
        stage: tuple(
            Term(Sample((Plane(source),), PATTERNS[mode]), f"s{stage}_{mode}", branch=mode) for mode in "sdy"
        )
        for stage, source in ((1, INPUT), (2, "stage1"))
    }
    middle = Requant("centred", (("div", 12), ("add", 127), ("clip", 0, 255), ("round",)))
    last = Requant("direct", (("div", 3), ("clip", 0, 255), ("round",)))
    return Plan.build([Stage("stage1", terms[1], middle), Stage("stage2", terms[2], last, upscale=4)], tables)


def read(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def run(executor, image: np.ndarray) -> np.ndarray:
    return np.moveaxis(executor.run(np.moveaxis(image, -1, 0))[:, 0], 0, -1)


def recorded(executor, plane: np.ndarray) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    executor.record(plane, lambda site, array: found.update({site: np.array(array)}))
    return found


@pytest.fixture(params=["native", "numpy"])
def kind(request):
    if request.param == "native":
        request.getfixturevalue("engine")
    return request.param


@pytest.mark.parametrize(
    ("table", "pattern", "scale", "lr", "ref", "compat"),
    [
        ("Model_S_x4_4bit_int8", "S", 4, "LR_srlut_x4", "srlut_S_x4_ref", "srlut-2021"),
        (
            "Model_S_x4_4bit_int8.from_Model_S_pth",
            "S",
            4,
            "LR_srlut_x4",
            "srlut_S_x4_transfer_table_ref",
            "srlut-2021",
        ),
        ("Model_S_x3_4bit_int8", "S", 3, "LR_bicubic/X3", "srlut_S_x3_ref", "srlut-2021"),
        ("Model_S_x2_4bit_int8", "S", 2, "LR_bicubic/X2", "srlut_S_x2_ref", "srlut-2021"),
        ("Model_F_x4_4bit_int8", "F", 4, "LR_srlut_x4", "srlut_F_x4_ref", ""),
        ("Model_V_x4_0bit_int8", "V", 4, "LR_srlut_x4", "srlut_V_x4_ref", ""),
    ],
)
def test_srlut(data, kind, table, pattern, scale, lr, ref, compat):
    values = np.load(data / f"lut-data/SR-LUT/{table}.npy")
    executor = make(srlut(values, pattern.replace("S", "s"), scale, compat), kind)
    for name in IMAGES if kind == "native" else IMAGES[2:3]:
        image = read(next((data / "lut-data/Set5" / lr).glob(f"{name}*.png")))
        wanted = read(next((data / "lut-golden" / ref).glob(f"{name}*.png")))
        got = run(executor, image)[: wanted.shape[0], : wanted.shape[1]]
        rows, columns = got.shape[:2]
        np.testing.assert_array_equal(got, wanted[:rows, :columns], err_msg=name)
        assert not wanted[rows:].any() and not wanted[:, columns:].any()


def test_srlut_with_the_correct_simplex_and_its_numerators(data, kind):
    golden = np.load(data / "lut-golden/srlut_S_x4.npz")
    values = np.load(data / "lut-data/SR-LUT/Model_S_x4_4bit_int8.npy")
    for compat, suffix in (("", "fixed"), ("srlut-2021", "ref")):
        executor = make(srlut(values, "s", 4, compat), kind)
        for name in IMAGES if kind == "native" else IMAGES[2:3]:
            lr = golden[f"{name}_lr"]
            np.testing.assert_array_equal(run(executor, lr), golden[f"{name}_{suffix}"])
        found = recorded(executor, golden["bird_lr"][..., 1])
        np.testing.assert_array_equal(found["stage1.in_c0"][0], golden[f"bird_N_{suffix}"][1])


def test_mulut_and_its_first_stage(data, kind):
    golden = np.load(data / "lut-golden/mulut_x2sdy_x4.npz")
    folder = data / "lut-data/MuLUT/sr_x2sdy"
    tables = {
        f"s{stage}_{mode}": Table(
            np.load(folder / f"LUT_ft_x4_4bit_int8_s{stage}_{mode}.npy").reshape(83521, -1), 4, 17, 16
        )
        for stage in (1, 2)
        for mode in "sdy"
    }
    executor = make(mulut(tables), kind)
    for name in IMAGES if kind == "native" else IMAGES[2:3]:
        np.testing.assert_array_equal(
            run(executor, golden[f"{name}_lr"]), golden[f"{name}_ref"], err_msg=name
        )
    found = recorded(executor, golden["bird_lr"][..., 0])
    stage1 = golden["bird_stage1"]
    np.testing.assert_array_equal(found["stage1"][0], stage1[0] if stage1.shape[0] == 3 else stage1[..., 0])


def test_compressed_mulut(data, kind):
    folder = data / "lut-golden/mulut_dfc_xyzt2i5"
    index = np.load(folder / "ref2index_xyzt2i5.npy")
    tables = {
        f"s{stage}_{mode}": Table(
            np.load(folder / f"LUT_ft_s{stage}_{mode}_compress1.npy").reshape(1807, -1), 4, 17, 16,
            near=3, width=2, thin=2, index=index,
            coarse=np.load(folder / f"LUT_ft_s{stage}_{mode}_compress2.npy").reshape(6561, -1),
        )
        for stage in (1, 2)
        for mode in "sdy"
    }  # fmt: skip
    executor = make(mulut(tables), kind)
    for name in IMAGES if kind == "native" else IMAGES[2:3]:
        image = read(next((data / "lut-data/Set5/LR_bicubic/X4").glob(f"{name}*.png")))
        np.testing.assert_array_equal(run(executor, image), read(folder / f"{name}_ref.png"), err_msg=name)
