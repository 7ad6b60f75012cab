"""Flat areas: found uneven, corrected exactly, and kept while tables are tuned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.flat import flat_sums, flatness, flattened
from twinnet.lut.requants import centred
from twinnet.restore.keep_flat import keep_flat
from twinnet.restore.nets.mulut import StageSpec, cascade


def _plan(noise=4):
    """Three stages, x4: the mean of the taps, with noise on every entry."""
    stages = [
        StageSpec("P1+P2", upscale=2, grids=lut.Grid.bits(5)),
        StageSpec("Q1+Q2+Q3", upscale=4, cell=2, grids=lut.Grid.bits(4)),
        StageSpec("Q1", upscale=2, cell=2, grids=lut.Grid.bits(5)),
    ]
    plan = lut.lower(lut.export(cascade(stages, width=4)))
    rng = np.random.default_rng(0)
    tables = {}
    for name, table in plan.tables.items():
        cells = np.stack(np.unravel_index(np.arange(len(table.values)), (table.nodes,) * table.axes), axis=1)
        greys = np.rint((cells.mean(axis=1) * table.step - 128) / 4)[:, None]
        tables[name] = replace(
            table, values=(greys + rng.integers(-noise, noise + 1, table.values.shape)).astype(np.int8)
        )
    whole = [replace(stage, requant=centred(len(stage.terms), 128)) for stage in plan.stages]
    return lut.Plan.build(whole, tables)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_every_grey_stays_in_every_phase(whole, compressed):
    plan = _plan(1 if whole else 4)
    if compressed:
        plan = lut.compress(plan, "xyz", 2, thin=2)
    before, after = flatness(plan), flatness(flattened(plan, whole=whole))
    assert before.uneven > 10 and before.moved >= 1
    assert after.uneven == 0 and after.moved <= whole
    assert whole or after.exact == 256
    assert (after.black, after.white) == (0, 255)


def test_only_the_diagonal_changes_and_by_little():
    plan = _plan(1)
    after = flattened(plan)
    for name, table in plan.tables.items():
        changed = np.flatnonzero((after.tables[name].values != table.values).any(axis=1))
        diagonal = np.arange(table.nodes) * ((table.nodes**table.axes - 1) // (table.nodes - 1))
        assert len(changed) and set(changed) <= set(diagonal)
        assert np.abs(after.tables[name].values.astype(int) - table.values).max() <= 3


def test_all_executors_agree_on_flatness():
    plan = _plan()
    assert flatness(plan, "numpy") == flatness(plan, "native") == flatness(plan)


def test_what_cannot_be_corrected_is_said():
    for name in ("mulut-multilinear", "spf"):
        with pytest.raises(UsageError, match="cannot be corrected"):
            flattened(lut.lower(random_net(name)))


def test_tuning_can_keep_flat_areas():
    net = lut.raise_plan(_plan(2))
    settle = keep_flat(net)
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        with torch.no_grad():
            for _, unit in lut.units(net):
                unit.table += torch.randn(unit.table.shape, generator=random) * 0.01
        settle()
    values = {path.removesuffix(".unit"): unit.table.detach().numpy() * 127 for path, unit in lut.units(net)}
    for sums in flat_sums(lut.lower(net)):
        found = sum(
            values[name][rows][:, list(sums.places)].sum(axis=1) for name, rows in zip(sums.tables, sums.rows)
        )
        assert np.abs(found - sums.wanted).max() < 1e-3
    rounded = lut.lower(net)
    assert flatness(rounded).moved <= 2
    assert flatness(flattened(rounded)).exact == 256
