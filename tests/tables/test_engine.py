"""Tables and the native engine as twins: exact where they must be, found where they are not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from twinnet import lut
from twinnet.check import check
from twinnet.errors import UsageError
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan, Requant, Stage
from twinnet.restore.nets import auto, mulut, spf, srlut
from twinnet.result import Result

IMAGE = torch.rand(1, 1, 20, 23, generator=torch.Generator().manual_seed(3))


def net_of(make: Callable[[], lut.LutNet]) -> lut.LutNet:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().eval()


NETS: dict[str, Callable[[], lut.LutNet]] = {
    "srlut-S": lambda: srlut.build("S", scale=2, width=8),
    "srlut-V": lambda: srlut.build("V", scale=4, width=8),
    "mulut": lambda: mulut.build(patterns="sd", stages=2, scale=2, width=8),
    "spf": lambda: spf.build(patterns="s", scale=2, width=8),
    "auto": lambda: auto.build_mulut(1, stages=2, scale=2, window=3, width=8),
}


@pytest.fixture(scope="module")
def network() -> lut.LutNet:
    return net_of(NETS["mulut"])


@pytest.fixture(scope="module")
def plan(network: lut.LutNet) -> Plan:
    return lut.lower(lut.export(copy.deepcopy(network)))


def run(network: lut.LutNet, twin: str, **options: object) -> Result:
    result = check((network, IMAGE), {"x": IMAGE.numpy()}, twin, **options)
    assert isinstance(result, Result)
    return result


def test_tables_are_judged_exactly_and_approximate_within_a_contributor(network: lut.LutNet) -> None:
    result = run(network, "lut")
    assert result.verdict == "PASS", repr(result)
    assert {p.status for p in result.pairs} == {"pass"}
    assert result.coverage.share == 1.0
    assert result.contributors, "the tables differ from the network between their nodes"
    assert result.contributors[0].error > 0
    assert "exactly what the tables give" in repr(result)


@pytest.mark.parametrize("name", NETS)
def test_the_native_engine_equals_the_tables_everywhere(name: str) -> None:
    result = run(net_of(NETS[name]), "lut-native")
    assert result.verdict == "PASS", repr(result)
    assert all(p.difference.differing == 0 for p in result.pairs)
    assert len(result.pairs) == result.coverage.sites


def with_stage(plan: Plan, index: int, stage: Stage) -> Plan:
    stages = list(plan.stages)
    stages[index] = stage
    return Plan.build(stages, plan.tables)


def wrong_entries(plan: Plan) -> Plan:
    name = "stage2.in_c0.b1"
    table = plan.tables[name]
    values = np.clip(table.values.astype(int) + 20, -127, 127).astype(np.int8)
    return Plan.build(plan.stages, {**plan.tables, name: replace(table, values=values)})


def wrong_padding(plan: Plan) -> Plan:
    stage = plan.stages[0]
    term = stage.terms[1]
    terms = (stage.terms[0], replace(term, sample=replace(term.sample, padding="reflect")))
    return with_stage(plan, 0, replace(stage, terms=terms))


def swapped_taps(plan: Plan) -> Plan:
    stage = plan.stages[1]
    term = stage.terms[0]
    a, b, c, d = term.sample.offsets
    terms = (replace(term, sample=replace(term.sample, offsets=(a, c, b, d))), stage.terms[1])
    return with_stage(plan, 1, replace(stage, terms=terms))


def wrong_rounding(plan: Plan) -> Plan:
    stage = plan.stages[0]
    steps = tuple(("add", 126.5) if step[0] == "add" else step for step in stage.requant.steps)
    return with_stage(plan, 0, replace(stage, requant=Requant("shifted", steps)))


@pytest.mark.parametrize(
    ("plant", "place"),
    [
        (wrong_entries, "stage2.in_c0.b1.rot"),
        (wrong_padding, "stage1.in_c0.b1.rot"),
        (swapped_taps, "stage2.in_c0.b0.rot"),
        (wrong_rounding, "stage1"),
    ],
)
def test_a_fault_is_found_where_it_is_and_nowhere_else(
    network: lut.LutNet, plan: Plan, plant: Callable[[Plan], Plan], place: str, tmp_path: Path
) -> None:
    file = write(LutFile(plant(plan)), tmp_path / "faulty.lut.safetensors")
    result = run(network, f"lut:{file}")
    assert result.verdict == "FAIL"
    found = {f.site.tensor for f in result.findings}
    assert found and all(name.startswith(place) for name in found), found
    if place == "stage1":
        assert found == {"stage1"}
    else:
        assert all(name.endswith(".sr") for name in found), found


def test_a_stale_table_is_found(network: lut.LutNet, tmp_path: Path) -> None:
    other = net_of(NETS["mulut"])
    with torch.no_grad():
        for parameter in other.get_submodule("stage1").parameters():
            parameter.mul_(1.1)
    file = lut.save(lut.export(other), tmp_path / "stale.lut.safetensors")
    result = run(network, f"lut:{file}")
    assert result.verdict == "FAIL"
    assert {f.site.tensor.partition(".")[0] for f in result.findings} == {"stage1"}


def test_a_file_of_tables_is_a_network(plan: Plan, tmp_path: Path) -> None:
    file = write(LutFile(plan), tmp_path / "tables.lut.safetensors")
    result = check(str(file), {"image": IMAGE.numpy()}, "lut-native")
    assert isinstance(result, Result)
    assert result.verdict == "PASS"
    assert result.network.format == "lookup tables"
    with pytest.raises(UsageError, match="dynamic"):
        check(str(file), None, "lut-native")


def test_an_ordinary_network_has_no_tables() -> None:
    with pytest.raises(UsageError, match="LUT network"):
        check((torch.nn.Linear(2, 2), torch.ones(1, 2)), None, "lut")
