"""Plans: what is refused, what is derived, and that they survive being written down."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.lut.zoo import CASES, random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.plan import (
    INPUT,
    Plan,
    Plane,
    Requant,
    Sample,
    Stage,
    Table,
    Term,
)
from twinnet.lut.requants import centred, direct, srlut_2021
from twinnet.lut.serial import plan_from_dict, plan_to_dict

TABLE = Table(np.zeros((17**2, 1), np.int8), axes=2, nodes=17, step=16)
TERM = Term(Sample((Plane(INPUT),), ((0, 0), (0, 1))), "t")
STAGE = Stage("stage1", (TERM,), direct(1))


@pytest.mark.parametrize("name", sorted(CASES))
def test_plans_survive_json(name, noise):
    plan = lut.lower(random_net(name))
    arrays = {key: table.values for key, table in plan.tables.items()}
    again = plan_from_dict(json.loads(json.dumps(plan_to_dict(plan))), arrays)
    assert again.stages == plan.stages and again.scales == plan.scales


def _with(**changes) -> list[Stage]:
    return [replace(STAGE, **changes)]


def _term(**changes) -> list[Stage]:
    return _with(terms=(replace(TERM, **changes),))


def _sample(**changes) -> list[Stage]:
    return _term(sample=replace(TERM.sample, **changes))


WRONG = {
    "no stage": ([], "at least one stage"),
    "no terms": (_with(terms=()), "no terms"),
    "name taken": (_with(name=INPUT), "taken"),
    "payload": (_with(upscale=2), "1 values per row, but 1 channel"),
    "unknown table": (_term(table="x"), "no table named 'x'"),
    "unknown plane": (_sample(planes=(Plane("later"),)), "does not exist yet"),
    "unknown channel": (_sample(planes=(Plane(INPUT, 1),)), "does not exist yet"),
    "axes": (_sample(offsets=((0, 0),)), "samples 1 values"),
    "padding": (_sample(padding="wrap"), "unknown padding"),
    "cell": (_with(cell=2), "does not divide"),
    "rotations": (_term(rotations=(0, 4)), "rotations"),
    "slip on two axes": (_term(compat="srlut-2021"), "does not apply"),
    "interpolation": (_term(interpolation="cubic"), "unknown interpolation"),
    "weights": (_sample(weights=((1, 2), (3, 1)), weight_bits=2), "add up to 2"),
    "requant range": (_with(requant=Requant("q", (("round",),))), "can leave 0..255"),
    "requant end": (_with(requant=Requant("q", (("clip", 0, 255),))), "must end with a round"),
    "requant step": (_with(requant=Requant("q", (("sqrt",), ("clip", 0, 255), ("round",)))), "bad step"),
    "twice the same term": (_with(terms=(TERM, TERM)), "two terms"),
    "sum too large": (_sample(value_bits=12), None),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_impossible_plans_are_refused(case):
    stages, message = WRONG[case]
    if message is None:
        term = replace(stages[0].terms[0], interpolation="multilinear")
        many = replace(STAGE, terms=tuple(replace(term, branch=f"b{k}") for k in range(64)))
        wide = replace(TABLE, values=np.zeros((2**2, 1), np.int8), nodes=2, step=2**11)
        with pytest.raises(UsageError, match="outgrows a double"):
            Plan.build([many], {"t": wide})
        return
    with pytest.raises(UsageError, match=message):
        Plan.build(stages, {"t": TABLE})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.zeros((17**2 - 1, 1), np.int8)}, "288 rows, but 17 nodes"),
        ({"values": np.zeros((17**2, 1), np.float32)}, "not int8"),
        ({"nodes": 15, "values": np.zeros((15**2, 1), np.int8)}, "below 255"),
        ({"near": 1, "width": 2, "thin": 2}, "index is missing"),
        ({"near": 2, "width": 2, "thin": 2}, "impossible band"),
    ],
)
def test_impossible_tables_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        Plan.build([STAGE], {"t": replace(TABLE, **changes)})


def test_requantisation_follows_the_published_expressions():
    n = np.arange(-4 * 127 * 16, 4 * 127 * 16 + 1)
    assert np.array_equal(srlut_2021()(n, 16), np.round(np.clip(n / 16 / 255, 0, 1) * 255).astype(np.uint8))
    n = np.arange(-12 * 127 * 16, 12 * 127 * 16 + 1)
    assert np.array_equal(centred(12)(n, 16), np.round(np.clip(n / 16 / 12 + 127, 0, 255)).astype(np.uint8))
    assert np.array_equal(direct(3)(n, 16), np.round(np.clip(n / 16 / 3, 0, 255)).astype(np.uint8))


def test_a_bound_is_never_exceeded(noise):
    for name in CASES:
        net = random_net(name)
        for _, unit in lut.units(net):
            unit.table.data.fill_(1.0)
        plan = lut.lower(net)
        seen = {}
        lut.LutModel(plan, executor="reference").record(noise, seen.__setitem__)
        for stage in plan.stages:
            groups = [seen[f"{stage.name}.{g}" if g else f"{stage.name}.b0.rot0"] for g in stage.groups]
            assert np.abs(sum(groups)).max() <= stage.bound
