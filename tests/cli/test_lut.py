"""`twinnet lut`: every verb, from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.cli.lut import app
from twinnet.errors import UsageError


def _run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def file(tmp_path):
    return lut.save(random_net("mulut-sdy"), tmp_path / "net.lut.safetensors", ("random entries",))


def test_info(file):
    text = _run("info", file)
    assert "sr x2" in text and "stage2.in_c0.b1  (0,0) (0,2) (2,0) (2,2)" in text and "random entries" in text
    facts = json.loads(_run("info", file, "--json"))
    assert facts["scale"] == 2 and len(facts["stages"]) == 2 and facts["lookups"] == 24


def test_import_run_compress_diff_on_published_tables(data, picture, tmp_path):
    ours, small, out = (tmp_path / n for n in ("m.lut.safetensors", "c.lut.safetensors", "out"))
    assert "MuLUT: 2 stages" in _run("import", data / "lut-data/MuLUT/sr_x2sdy", "-o", ours)
    low = data / "lut-data/Set5/LR_bicubic/X4"
    assert "5 file(s)" in _run("run", low, "--table", ours, "-o", out, "-q")
    for name in ("baby", "woman"):
        expected = picture(data / f"lut-golden/mulut_x2sdy_x4_ref/{name}_LUT_ft_4bit.png")
        assert np.array_equal(picture(out / f"{name}.png"), expected)
    assert "426,768 (10.0%)" in _run("compress", ours, "-o", small)
    published = data / "lut-golden/mulut_dfc_xyzt2i5"
    assert "the same network" in _run("diff", small, published)
    _run("run", low / "butterfly.png", "--table", published, "-o", tmp_path / "b.png", "-q")
    assert np.array_equal(picture(tmp_path / "b.png"), picture(published / "butterfly_ref.png"))
    raw = data / "lut-golden/mulut_export_tables"
    text = _run("diff", ours, raw, "--images", low / "butterfly.png", "--most", 1, code=1)
    assert "of reads by these images meet one" in text


def test_import_of_a_checkpoint(data, tmp_path):
    out = tmp_path / "s.lut.safetensors"
    _run("import", data / "lut-data/SR-LUT/Model_S.pth", "-o", out, "--last", 255)
    published = np.load(data / "lut-data/SR-LUT/Model_S_x4_4bit_int8.from_Model_S_pth.npy").reshape(-1, 16)
    table = lut.load(out).plan.tables["stage1.in_c0.b0"]
    assert table.last == 255
    assert np.count_nonzero(table.values != published) <= 20


def test_onnx(file, tmp_path):
    _run("onnx", file, "-o", tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").stat().st_size > 10_000


def test_a_damaged_file_in_a_folder_is_reported(file, tmp_path):
    (tmp_path / "in").mkdir()
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(tmp_path / "in" / "a.png")
    (tmp_path / "in" / "b.png").write_bytes(b"nothing")
    text = _run("run", tmp_path / "in", "--table", file, "-o", tmp_path / "out", "-q", code=2)
    assert "b.png is not a readable image" in text and (tmp_path / "out" / "a.png").exists()


def test_mistakes_are_usage_errors(file, tmp_path):
    for arguments in (
        ("info", tmp_path / "missing"),
        ("run", tmp_path / "missing.png", "--table", file, "-o", tmp_path),
        ("compress", file, "-o", tmp_path / "o.lut.safetensors", "--interval", "4"),
        ("import", file, "-o", tmp_path / "o.lut.safetensors"),
    ):
        with pytest.raises(UsageError):
            CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert [p.name for p in tmp_path.iterdir()] == ["net.lut.safetensors"]


def test_help_needs_no_numpy():
    code = "import sys, twinnet.cli.lut; print(sorted({'numpy', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
