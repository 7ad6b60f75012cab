"""Two table networks side by side, in the words of a check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan
from twinnet.structure import diff


@pytest.fixture(scope="module")
def plan() -> Plan:
    return lut.lower(random_net("mulut-sdy"))


def changed(plan: Plan) -> Plan:
    """Another padding in one branch, one other entry, another divisor."""
    first, *rest = plan.stages
    one, *others = first.terms
    terms = (replace(one, sample=replace(one.sample, padding="reflect")), *others)
    steps = tuple(("div", 7) if s[0] == "div" else s for s in first.requant.steps)
    stage = replace(first, terms=terms, requant=replace(first.requant, steps=steps))
    table = plan.tables["stage2.in_c0.b2"]
    values = table.values.copy()
    values[5, 0] = -values[5, 0] if values[5, 0] else 9
    return Plan.build((stage, *rest), {**plan.tables, "stage2.in_c0.b2": replace(table, values=values)})


def test_every_difference_is_said_with_both_values(plan: Plan, tmp_path: Path) -> None:
    a = write(LutFile(plan), tmp_path / "a.lut.safetensors")
    b = write(LutFile(changed(plan)), tmp_path / "b.lut.safetensors")
    assert diff(str(a), str(a)).same
    said = [c.sentence for c in diff(str(a), str(b)).changes]
    assert said[0] == "stage1.in_c0.b0: B pads reflect where A pads edge"
    assert said[1].startswith("stage1: B divides by 7 where A divides by 12")
    assert said[2].startswith("stage2.in_c0.b2: B reads ") and "where A has" in said[2]
    assert len(said) == 3
    done = CliRunner().invoke(app, ["diff", str(a), str(b)])
    assert done.exit_code == 1 and "B pads reflect where A pads edge" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["lut", "diff", str(a), str(b)])
    assert done.exit_code == 1 and "B pads reflect where A pads edge" in done.output


def test_a_network_beside_its_tables(tmp_path: Path) -> None:
    net = random_net("srlut-S")
    file = lut.save(net, tmp_path / "a.lut.safetensors")
    image = torch.zeros(1, 1, 8, 8)
    assert diff((net, image), str(file)).same
    with torch.no_grad():
        net.get_submodule("stage1.in_c0.b0.unit").table.mul_(-1)  # type: ignore[union-attr,operator]
    (change,) = diff((net, image), str(file)).changes
    assert "sign flipped" in change.sentence


def test_tables_are_not_compared_with_layers(plan: Plan, tmp_path: Path) -> None:
    a = write(LutFile(plan), tmp_path / "a.lut.safetensors")
    with pytest.raises(UsageError, match="is not a table network"):
        diff(str(a), (torch.nn.Linear(2, 2), torch.ones(1, 2)))


def test_other_stages(plan: Plan, tmp_path: Path) -> None:
    a = write(LutFile(plan), tmp_path / "a.lut.safetensors")
    b = lut.save(random_net("srlut-S"), tmp_path / "b.lut.safetensors")
    (change,) = diff(str(a), str(b)).changes
    assert change.sentence == "B has the stages stage1 where A has stage1 stage2"
    assert np.isfinite(diff(str(a), str(b)).parameters_a)
