"""Differences between tables: which cells, how large, how often visited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.lut.cells import diff, lines, to_dict
from twinnet.lut.plan import Plan


def _changed(plan: Plan, table: str, row: int, by: int) -> Plan:
    values = plan.tables[table].values.copy()
    values[row, 0] = np.clip(int(values[row, 0]) + by, -127, 127)
    return Plan.build(plan.stages, {**plan.tables, table: replace(plan.tables[table], values=values)})


def test_a_changed_cell_is_found_and_its_visits_counted():
    plan = lut.lower(random_net("srlut-S"))
    name = "stage1.in_c0.b0"
    flat = np.full((6, 6), 64, np.uint8)  # node 2 of step 32 on every axis: one row, full weight
    row = 2 * (729 + 81 + 9 + 1)
    other = _changed(plan, name, row, -9)
    found = diff(plan, other, [flat])
    (table,) = found.tables
    assert not found.same and table.differing_rows == table.differing_entries == 1 and table.largest == 9
    assert table.worst[0].node == (64, 64, 64, 64) and table.worst[0].visits == 6 * 6 * 4
    assert table.visited == 1.0
    away = diff(plan, other, [np.full((6, 6), 200, np.uint8)])
    assert away.tables[0].visited == 0.0
    assert "64 64 64 64: differs by 9, read 144 times" in "\n".join(lines(found))
    assert to_dict(found)["tables"][0]["worst"][0]["visits"] == 144


def test_equal_and_incomparable_networks():
    a, b = lut.lower(random_net("srlut-S")), lut.lower(random_net("srlut-F-0bit"))
    assert diff(a, a).same and "the same network" in lines(diff(a, a))[0]
    found = diff(a, b)
    assert (
        not found.same and not found.tables and any("another grid" in str(said) for said in found.structure)
    )
    c = diff(a, lut.lower(random_net("mulut-sdy")))
    assert any("has the stages" in str(said) for said in c.structure)


@pytest.mark.parametrize("name", ["mulut-sdy", "spf"])
def test_compressed_tables_compare_part_by_part(name, noise):
    plan = lut.lower(random_net(name, compressed=True))
    target = next(n for n, t in plan.tables.items() if t.banded)
    other = _changed(plan, target, 7, 30 if plan.tables[target].values[7, 0] < 0 else -30)
    found = diff(plan, other, [noise])
    changed = [t.table for t in found.tables if t.differing_rows]
    assert changed == [target]
    assert {t.table for t in found.tables} > {target, f"{target}.coarse"}
