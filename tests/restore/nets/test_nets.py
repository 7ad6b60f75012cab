"""The networks: shapes at every scale, sizes as published, patterns as data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.patterns import PATTERNS, pattern, patterns
from twinnet.restore.nets import auto, mulut, spf, srlut

BUILDERS = {
    "srlut": srlut.build,
    "mulut": mulut.build,
    "spf": spf.build,
    "auto-mulut": auto.build_mulut,
    "auto-spf": auto.build_spf,
}


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["srlut", "mulut", "spf", "auto-mulut", "auto-spf"])
def test_every_scale_gray_and_colour(name, scale):
    net = BUILDERS[name](scale=scale, width=4)
    with torch.no_grad():
        assert net(torch.rand(2, 3, 5, 6)).shape == (2, 3, 5 * scale, 6 * scale)
    image = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    assert np.array_equal(net.predict(image)[..., 1], net.predict(image[..., 1]))


def test_table_sizes_are_the_published_ones():
    def size(net):
        return sum(unit.grid.rows(unit.axes) * unit.outputs for _, unit in lut.units(net))

    assert size(srlut.build("S", 4)) == 1_336_336
    assert size(srlut.build("F", 4)) == 78_608
    assert size(srlut.build("V", 4, grid=lut.Grid.bits(0))) == 1_056_784
    assert size(mulut.build("sdy", 2, 4)) == 4_259_571
    assert size(spf.build("sdy", 4)) == 18_124_057
    net = spf.build("s", 4, width=2)
    for _, unit in lut.units(net):
        unit.set_table(lut.plan.Table(np.zeros((17**4, unit.outputs), np.int8), 4, 17, 16))
    assert sum(t.nbytes for t in lut.compress(lut.lower(net)).tables.values()) == 928_212


def test_only_the_number_of_branches_counts():
    torch.manual_seed(0)
    a = auto.build_mulut("ss", 2, 2, width=4)
    torch.manual_seed(0)
    b = auto.build_mulut("yy", 2, 2, width=4)
    x = torch.rand(1, 1, 5, 5)
    assert torch.equal(a(x), b(x))


def test_patterns_are_data():
    assert patterns("sdy") == (PATTERNS["s"], PATTERNS["d"], PATTERNS["y"])
    assert patterns("P1+R5")[1] == PATTERNS["R5"] and patterns("P2") == (PATTERNS["P2"],)
    net = mulut.build([[(0, -1), (0, 1)], [(0, 0), (3, 3), (-3, 3)]], 2, 1, width=4)
    assert [u.axes for _, u in lut.units(net)] == [2, 3, 2, 3]
    for wrong in ("k", [], [(1,)], [(0, 0), (0, 99)], 5):
        with pytest.raises(UsageError):
            pattern(wrong)


def test_presets_of_the_cascade():
    """P1-P3 to an x2 image, then Q1-Q3 once per original pixel: 24 lookups, 393 660 bytes at 9 nodes."""
    nine = lut.Grid.bits(5)
    net = mulut.cascade(
        [
            mulut.StageSpec("P1+P2+P3", upscale=2, grids=nine),
            mulut.StageSpec("Q1+Q2+Q3", upscale=4, cell=2, grids=nine),
        ],
        width=4,
    )
    assert net.scale == 4
    assert sum(u.grid.rows(u.axes) * u.outputs for _, u in lut.units(net)) == 393_660
