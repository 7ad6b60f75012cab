"""Faults of table networks are named: in a file of tables, in an ONNX model, and in a foreign runtime."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.faults.tables.interpreter import Interpreter
from benchmarks.faults.tables.kinds import ENGINE_FAULTS, PLAN_FAULTS, Place, Planted
from benchmarks.faults.tables.run import _foreign, picture

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.check import check
from twinnet.lut.file import LutFile, write
from twinnet.lut.grid import Grid
from twinnet.lut.plan import Plan, Table
from twinnet.lut.reference import run_reference
from twinnet.lut.requants import centred
from twinnet.report.words import also_words
from twinnet.restore.nets import srlut
from twinnet.result import Finding, Result

IMAGE = picture(np.random.default_rng(3))
PLANES = np.rint(IMAGE[0] * 255).astype(np.uint8)


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {name: lut.lower(random_net(name)) for name in ("mulut-sdy", "auto-mulut")}


@pytest.fixture(scope="module")
def files(plans: dict[str, Plan], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tables")
    return {n: str(write(LutFile(p), folder / f"{n}.lut.safetensors")) for n, p in plans.items()}


def place(plan: Plan, stage: int = 1, term: int = 1, seed: int = 0) -> Place:
    """A branch of the last stage; another training is other random entries."""
    rng = np.random.default_rng(seed)
    visits: dict[str, np.ndarray] = {}
    for plane in PLANES:
        run_reference(plan, plane, visits=visits)
    table = plan.stages[stage].terms[term].table

    def retable(name: str) -> np.ndarray:
        return rng.integers(-127, 128, plan.tables[name].values.shape).astype(np.int8)

    return Place(plan, stage, term, rng, visits[table], retable, lambda name: None)


def findings(file: str, twin: Any) -> tuple[Finding, ...]:
    result = check(file, {"image": IMAGE}, twin, keep="none")
    assert isinstance(result, Result)
    return result.findings


def named(planted: Planted, found: tuple[Finding, ...], pattern: str = "") -> None:
    """The first finding is where the fault is, and its cause says what it is."""
    assert found, "the fault was not found"
    first = found[0]
    where = planted.sites.lstrip("=")
    assert first.site.tensor.startswith(where), (first.site.tensor, where)
    assert first.cause is not None, first.reason
    assert first.cause.kind == "table"
    assert re.search(pattern or planted.wanted, first.cause.sentence), first.cause.sentence
    assert first.cause.explains >= 0.99


NEEDS_NETWORK = {"wrong node value"}
LAST_BIN = {"clipped bin", "node 255 for 256"}
RESIDUAL = {"residual left out"}


@pytest.mark.parametrize("fault", [f for f in PLAN_FAULTS if f not in NEEDS_NETWORK])
def test_in_a_file_of_tables(
    fault: str, plans: dict[str, Plan], files: dict[str, str], tmp_path: Path
) -> None:
    name = "auto-mulut" if fault in RESIDUAL else "mulut-sdy"
    stage = 0 if fault == "wrong centre" else 1
    planted = PLAN_FAULTS[fault](place(plans[name], stage))
    assert planted is not None
    twin = write(LutFile(planted.plan), tmp_path / "faulty.lut.safetensors")
    pattern = "sampler|samples|taps" if fault == "taps in another order" else ""
    named(planted, findings(files[name], f"lut:{twin}"), pattern)


@pytest.mark.parametrize(
    "fault", ["wrong padding", "flipped sampler", "one entry", "a few rows", "residual left out"]
)
def test_in_an_onnx_model(fault: str, plans: dict[str, Plan], files: dict[str, str], tmp_path: Path) -> None:
    name = "auto-mulut" if fault in RESIDUAL else "mulut-sdy"
    planted = PLAN_FAULTS[fault](place(plans[name]))
    assert planted is not None
    lut.to_onnx(planted.plan, tmp_path / "faulty.onnx")
    named(planted, findings(files[name], f"onnxruntime:{tmp_path / 'faulty.onnx'}"))


@pytest.mark.parametrize("fault", [f for f in ENGINE_FAULTS if not f.startswith("outside")])
def test_in_a_foreign_runtime(fault: str, plans: dict[str, Plan], files: dict[str, str]) -> None:
    # Only the image itself is sure to reach the last bin.
    planted = ENGINE_FAULTS[fault](place(plans["mulut-sdy"], 0 if fault in LAST_BIN else 1))
    assert planted is not None
    named(planted, findings(files["mulut-sdy"], _foreign(planted, "all")))


def test_where_only_stages_are_seen(plans: dict[str, Plan], files: dict[str, str]) -> None:
    planted = ENGINE_FAULTS["wrong bin"](place(plans["mulut-sdy"]))
    assert planted is not None
    (found,) = findings(files["mulut-sdy"], _foreign(planted, "stages"))
    assert found.site.tensor == "stage2"
    assert found.cause is not None and "stage2.in_c0.b1" in found.cause.sentence
    assert re.search(planted.wanted, found.cause.sentence)


def test_half_way_is_no_excuse_where_only_stages_are_seen(
    plans: dict[str, Plan], files: dict[str, str]
) -> None:
    """A sum in whole numbers that lies half way is rounded one way, however many steps before it are not seen."""
    planted = ENGINE_FAULTS["rounds half up"](place(plans["mulut-sdy"], 0))
    assert planted is not None
    named(planted, findings(files["mulut-sdy"], _foreign(planted, "stages")))


def test_another_centre_where_nothing_is_divided_is_said_in_one_way(
    plans: dict[str, Plan], tmp_path: Path
) -> None:
    """Adding 128 instead of 127, and adding 1 before, are the same."""
    plan = plans["mulut-sdy"]
    stage = replace(plan.stages[0], requant=centred(1))
    plan = Plan.build((stage, *plan.stages[1:]), plan.tables)
    planted = PLAN_FAULTS["wrong centre"](place(plan, 0))
    assert planted is not None
    file = str(write(LutFile(plan), tmp_path / "plain.lut.safetensors"))
    named(planted, findings(file, _foreign(planted, "all")))


@pytest.fixture(scope="module")
def large() -> Plan:
    """A table of 17 nodes on four axes: these images read rows whose entries they cannot all pin down."""
    net = srlut.build("S", scale=2, width=4)
    rng = np.random.default_rng(8)
    for _, unit in lut.units(net):
        entries = rng.integers(-90, 128, (unit.grid.rows(unit.axes), unit.outputs)).astype(np.int8)
        unit.set_table(Table(entries, unit.axes, unit.grid.nodes, unit.grid.step, unit.grid.last))
    return lut.lower(net)


@pytest.fixture(scope="module")
def large_file(large: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(LutFile(large), tmp_path_factory.mktemp("large") / "large.lut.safetensors"))


def test_another_table_that_nobody_shows(large: Plan, large_file: str) -> None:
    planted = PLAN_FAULTS["stale table"](place(large, 0, 0))
    assert planted is not None
    found = findings(large_file, _foreign(planted, "all"))
    named(planted, found, "other entries in .* as from another export or training")
    # Each rotation reads the same table: it is one finding, of the term.
    assert len(found) == 1 and len(found[0].also) == 3
    assert also_words(found[0]) == "they are rotations of stage1.in_c0.b0"


def test_other_entries_at_the_last_node_only(large: Plan, large_file: str) -> None:
    at = place(large, 0, 0)
    rows = np.arange(len(at.table.values))
    last = (np.stack(np.unravel_index(rows, (17,) * 4)) == 16).any(axis=0)
    values = at.table.values.astype(np.int16)
    # Small steps up and down, so that the errors of two entries cancel here and there.
    values[last] = np.clip(
        values[last] + np.random.default_rng(5).integers(-2, 3, values[last].shape), -127, 127
    )
    planted = Planted(at.with_values(values.astype(np.int8)), "stage1.in_c0.b0.rot", "last node")
    named(planted, findings(large_file, _foreign(planted, "all")), "only where a tap is at the last node")


def test_lookups_that_no_entries_give_are_not_called_other_entries(large: Plan, large_file: str) -> None:
    """Sums that depend on the place, not on the pixels: equal lookups differ."""
    planted = ENGINE_FAULTS["outside: a wave on the lookups"](place(large, 0, 0))
    assert planted is not None
    found = findings(large_file, _foreign(planted, "all"))
    assert len(found) == 1 and len(found[0].also) == 3
    assert found[0].cause is None


def test_blocks_turned_the_wrong_way_where_only_stages_are_seen(large: Plan, large_file: str) -> None:
    planted = ENGINE_FAULTS["block turned the wrong way"](place(large, 0, 0))
    assert planted is not None
    (found,) = findings(large_file, _foreign(planted, "stages"))
    assert found.cause is not None, found.reason
    assert "turns the blocks back the wrong way" in found.cause.sentence


def test_two_rotations_exchanged_where_only_stages_are_seen(large: Plan, large_file: str) -> None:
    at = place(large, 0, 0)
    planted = ENGINE_FAULTS["swapped rotation"](replace(at, rng=np.random.default_rng(2)))
    assert planted is not None
    (found,) = findings(large_file, _foreign(planted, "stages"))
    assert found.cause is not None, found.reason
    assert re.search(r"samples rotation \d for rotation \d", found.cause.sentence), found.cause.sentence


def test_blocks_in_another_order_where_only_stages_are_seen(large: Plan, large_file: str) -> None:
    """The order of a block and that of a row's outputs are one thing, said once."""
    planted = ENGINE_FAULTS["block transposed"](place(large, 0, 0))
    assert planted is not None
    (found,) = findings(large_file, _foreign(planted, "stages"))
    assert found.cause is not None, found.reason
    assert re.search(planted.wanted, found.cause.sentence)


def test_two_faults_in_one_term_stay_two(plans: dict[str, Plan], files: dict[str, str]) -> None:
    """One rotation is sampled as another, and all blocks are written otherwise."""
    at = place(plans["mulut-sdy"])
    one, other = (ENGINE_FAULTS[f](at) for f in ("zero padding", "block transposed"))
    assert one is not None and other is not None

    def make(plan: Plan) -> Interpreter:
        made, second = one.make(plan), other.make(plan)
        made.place = second.place  # type: ignore[method-assign]
        return made

    found = findings(files["mulut-sdy"], _foreign(replace(one, make=make), "all"))
    assert [f.cause and bool(re.search(p.wanted, f.cause.sentence)) for f, p in zip(found, (one, other))] == [
        True
    ] * 2
    assert len(found) == 2


def test_what_no_family_describes_stays_unknown(plans: dict[str, Plan], files: dict[str, str]) -> None:
    planted = ENGINE_FAULTS["outside: a wave on the lookups"](place(plans["mulut-sdy"]))
    assert planted is not None
    found = findings(files["mulut-sdy"], _foreign(planted, "all"))
    assert found and all(f.cause is None for f in found)
    assert "differ" in str(found[0].reason)


def test_data_that_cannot_tell_is_said_to(plans: dict[str, Plan], files: dict[str, str]) -> None:
    """On a flat image every window is alike: other taps show nothing, and one bin off fits many ways."""
    planted = ENGINE_FAULTS["wrong bin"](place(plans["mulut-sdy"]))
    assert planted is not None
    flat = {"image": np.full((1, 1, 12, 12), 100 / 255, np.float32)}
    result = check(files["mulut-sdy"], flat, _foreign(planted, "all"), keep="none")
    assert isinstance(result, Result) and result.findings
    assert result.findings[0].cause is None or "bin" in result.findings[0].cause.sentence


def test_a_table_made_with_another_last_node(tmp_path: Path) -> None:
    """The network itself is at hand, so the entries it gives for the other node are known."""
    torch.manual_seed(1)
    net = srlut.build("S", scale=2, width=8, grid=Grid.bits(5)).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(1.6)
    other = copy.deepcopy(net)
    for _, unit in lut.units(other):
        unit.grid = Grid.bits(5, 255)
    plan = lut.lower(lut.export(other))
    file = write(LutFile(plan), tmp_path / "faulty.lut.safetensors")
    result = check((net, torch.from_numpy(IMAGE)), None, f"lut:{file}", keep="none")
    assert isinstance(result, Result)
    if result.verdict == "FAIL":
        cause = result.findings[0].cause
        assert cause is not None
        assert cause.sentence.startswith(
            "the twin looks up bin 7 with node 256 where its table was made with 255"
        )
    # Against the tables themselves no unit is allowed, so that it shows in any case.
    good = write(LutFile(lut.lower(lut.export(copy.deepcopy(net)))), tmp_path / "good.lut.safetensors")
    exact = check(str(good), {"image": IMAGE}, f"lut:{file}", keep="none")
    assert isinstance(exact, Result) and exact.findings[0].cause is not None
    assert "made with 255 (the network's with 256)" in exact.findings[0].cause.sentence


def test_clean_runtimes_raise_no_alarm(plans: dict[str, Plan], files: dict[str, str]) -> None:
    for name in plans:
        for shown in ("all", "stages"):
            assert not findings(files[name], _foreign(Planted(plans[name], "", ""), shown))


def test_the_foreign_runtime_is_right(plans: dict[str, Plan]) -> None:
    """What the faults are put into gives the integers of the plan."""
    for plan in plans.values():
        out = Interpreter(plan).run(PLANES[0], lambda name, array: None)
        np.testing.assert_array_equal(out, run_reference(plan, PLANES[0]))


def test_a_compressed_table_with_other_rows(tmp_path: Path) -> None:
    plan = lut.lower(random_net("mulut-sdy", compressed=True))
    name = "stage1.in_c0.b0"
    values = plan.tables[name].values.copy()
    values[:] = np.roll(values, 1, axis=0)
    faulty = Plan.build(plan.stages, {**plan.tables, name: replace(plan.tables[name], values=values)})
    good, bad = (
        write(LutFile(p), tmp_path / f"{n}.lut.safetensors") for n, p in (("a", plan), ("b", faulty))
    )
    found = findings(str(good), f"lut:{bad}")
    assert found[0].site.tensor.startswith(f"{name}.rot")
    assert found[0].cause is not None and "other entries" in found[0].cause.sentence
