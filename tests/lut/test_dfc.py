"""Diagonal-first compression: sizes, the band lemma, exactness where nothing was thrown away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.band import band_cells
from twinnet.lut.dfc import compress_table, infer_band
from twinnet.lut.plan import Table

ROWS = {
    "xyzt": (421, 1807, 4583, 8953),
    "xyz": (2431, 6375, 11781, 18309),
    "xy": (14161, 22831, 30923, 38437),
}


@pytest.mark.parametrize("axes", sorted(ROWS))
def test_band_sizes(axes):
    near = len(axes) - 1
    for width, rows in enumerate(ROWS[axes], start=1):
        assert len(band_cells(17, near, width)) * 17 ** (3 - near) == rows
        assert infer_band(rows) == (near, width)


@pytest.mark.parametrize(("interval", "rows"), [(5, 6561), (6, 625), (7, 81)])
@pytest.mark.parametrize("axes", sorted(ROWS))
def test_compressed_tables_hold_the_rows_they_should(axes, interval, rows):
    dense = Table(np.random.default_rng(0).integers(-127, 128, (17**4, 1)).astype(np.int8), 4, 17, 16)
    small = compress_table(dense, axes, 2, interval)
    small.check("small")
    assert small.coarse is not None and len(small.coarse) == rows and len(small.values) == ROWS[axes][1]
    grid = dense.values.reshape(17, 17, 17, 17)
    assert small.index is not None
    rest = 17 ** (3 - small.near)
    row = small.index[(3, *[-1] * small.near)] * rest + (
        2 * 17 + 2 if rest == 289 else 2 if rest == 17 else 0
    )
    assert small.values[row] == grid[3, 2, 2, 2]
    assert small.coarse[-1] == grid[-1, -1, -1, -1]


def test_compression_is_exact_in_the_band_and_on_coarse_nodes(noise):
    """Flat images stay in the band; images of multiples of 32 are nodes of the off-band table."""
    net = random_net("srlut-S")
    unit = next(lut.units(net))[1]
    rng = np.random.default_rng(0)
    unit.set_table(Table(rng.integers(-20, 128, (17**4, 4)).astype(np.int8), 4, 17, 16))
    dense = lut.lower(net)
    small = lut.compress(dense, "xyzt", 2, 5)
    flat = (100 + noise % 33).astype(np.uint8)
    nodes = (noise // 32 * 32).astype(np.uint8)
    for image, same in ((flat, True), (nodes, True), (noise, False)):
        a, b = (lut.LutModel(p, executor="reference")(image) for p in (dense, small))
        assert np.array_equal(a, b) is same


def test_what_cannot_be_compressed():
    dense = Table(np.zeros((17**2, 1), np.int8), 2, 17, 16)
    for arguments, message in [
        (("xz",), "unknown compression"),
        (("xy", 0), "half-width 0"),
        (("xy", 2, 4), r"does not thin out.*\n  use interval 5 or 6 or 7"),
        (("xy", 2, 5, 3), "does not thin out"),
    ]:
        with pytest.raises(UsageError, match=message):
            compress_table(dense, *arguments)
    with pytest.raises(UsageError, match="compressed already"):
        compress_table(compress_table(dense))
    with pytest.raises(UsageError, match="no diagonal"):
        compress_table(replace(dense, values=np.zeros((17, 1), np.int8), axes=1))
    with pytest.raises(UsageError, match="simplex"):
        lut.compress(random_net("mulut-multilinear"), thin=5)


def test_channel_tables_are_left_alone():
    plan = lut.compress(lut.lower(random_net("spf")), "xyzt", 1, 6)
    assert [name for name, table in plan.tables.items() if not table.banded] == ["channel.b0"]
