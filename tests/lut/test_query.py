"""Finding sites by name."""

from __future__ import annotations

import pytest

from twinnet import lut
from twinnet.errors import UsageError
from twinnet.restore.nets import auto


def test_names_patterns_and_leading_dots():
    net = auto.build_spf("s", 2, 3, width=4)
    sites = net.sites()
    assert [s.name for s in lut.find_sites(sites, ".convblock2.in_c0.input.prev_x")] == [
        "convblock2.in_c0.input.prev_x"
    ]
    assert len(lut.find_sites(sites, "upblock.*.sr")) == 16
    assert lut.find_sites(sites, "convblock1") == lut.find_sites(sites, ".convblock1")
    with pytest.raises(UsageError, match="no site matches 'convblock9'"):
        lut.find_sites(sites, "convblock9")


def test_plans_and_networks_have_the_same_names():
    net = lut.export(auto.build_mulut(1, 2, 2, width=4, grid=lut.Grid.bits(6)))
    for query in ("stage2.*", ".stage1", "*.rot3.sr"):
        names = [s.name for s in lut.find_sites(net.sites(), query)]
        assert names == [s.name for s in lut.find_sites(lut.sites(lut.lower(net)), query)]
