"""Tables of other families are told by name, and that they cannot be run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from twinnet.cli.lut import app
from twinnet.errors import UsageError
from twinnet.lut.families import FAMILIES
from twinnet.lut.model import open_tables

FILES = {
    "HKLUT": ("S0_MSB_HDB_LUT_H_x2_4bit_int8.npy", "S1_LSB_HD_LUT_D_x2_4bit_int8.npy"),
    "ShiftLUT": ("DW0_MSB.npz", "DW0_MSB.json", "PW3_MSB.npz", "UP_MSB.npz", "offset.npy"),
    "TinyLUT": ("Model_V_L1_Depth_x4_H6.npy", "Model_V_L1_Point_x4_L2.npy", "Model_V_UP_x4_L2.npy"),
    "LeRF": ("LUTft_s1_sr0.npy", "LUTft_s1_cr0.npy", "LUTft_s2_tr1.npy"),
}
"""Names as they are published."""


@pytest.mark.parametrize("family", FILES)
def test_they_are_named_and_not_run(tmp_path, family):
    for name in FILES[family]:
        np.save(tmp_path / "x.npy", np.zeros((16, 4), np.int8))
        (tmp_path / "x.npy").rename(tmp_path / name)
    shown = CliRunner().invoke(app, ["info", str(tmp_path)], catch_exceptions=False)
    assert shown.exit_code == 0 and family in shown.output and "not yet" in shown.output
    facts = json.loads(CliRunner().invoke(app, ["info", str(tmp_path), "--json"]).output)
    assert facts["name"] == family and facts["runs"] is False and facts["files"] >= 2
    with pytest.raises(UsageError, match=f"tables of {family}, which cannot be run yet"):
        open_tables(tmp_path)


def test_every_family_is_tried_here():
    assert {family.name for family in FAMILIES} == set(FILES)
