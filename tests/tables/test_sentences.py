"""Every hypothesis about tables can be said, and so can every way in which two plans differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.blame.problem import Problem
from twinnet.blame.search import proposals
from twinnet.layers import evaluate
from twinnet.lut.differences import of_plans
from twinnet.lut.plan import Plan, Requant, Stage, Table
from twinnet.report.sentences import words
from twinnet.result import Fact, fact
from twinnet.tables.causes import TABLES
from twinnet.tables.read import read_plan

IMAGE = {"image": torch.from_numpy(np.random.default_rng(5).integers(0, 256, (1, 1, 12, 12), dtype=np.uint8))}


def plan_of(name: str, compressed: bool = False) -> Plan:
    return lut.lower(random_net(name, compressed=compressed))


def sayable(found: Fact) -> bool:
    text = words(found)
    return bool(text) and "{" not in text and "None" not in text and found.code not in text


@pytest.mark.parametrize(
    ("name", "compressed"),
    [("srlut-S", False), ("mulut-sdy", False), ("mulut-sdy", True), ("spf", True), ("auto-mulut", False)],
)
def test_every_hypothesis_can_be_said(name: str, compressed: bool) -> None:
    graph = read_plan(plan_of(name, compressed))
    values = evaluate(graph, IMAGE, keep=[layer.outputs[0] for layer in graph]) | IMAGE
    said = set()
    for layer in {layer.kind: layer for layer in graph.layers[1:]}.values():
        inputs = {n: values[n] for n in layer.inputs if n is not None}
        got = values[layer.outputs[0]] + 1.0
        for candidate in proposals(Problem((layer,), {}, inputs, layer.outputs[0], got, repertoire=TABLES)):
            assert sayable(candidate.fact), candidate.fact
            said.add(candidate.fact.code)
    assert {"table.padding", "table.bin", "table.interpolation", "table.summed", "table.requant_step"} <= said


def changed(plan: Plan, at: int = 0, table: Table | None = None, **stage: object) -> Plan:
    old: Stage = plan.stages[at]
    stages = (*plan.stages[:at], replace(old, **stage), *plan.stages[at + 1 :])
    tables = plan.tables if table is None else {**plan.tables, old.terms[0].table: table}
    return Plan.build(stages, tables)


def test_every_difference_can_be_said() -> None:
    plan = plan_of("auto-mulut")
    first = plan.stages[0].terms[0]
    table = plan.tables[first.table]
    sample, rest = first.sample, plan.stages[0].terms[1:]
    assert sample.weights is not None
    entries = table.values.copy()
    entries[:40] = np.clip(entries[:40].astype(np.int16) + 3, -127, 127)
    row = table.values.copy()
    row[5] = -row[5] + 1
    others = [
        changed(plan, terms=(replace(first, sample=replace(sample, padding="reflect")), *rest)),
        changed(plan, terms=(replace(first, sample=replace(sample, offsets=sample.offsets[::-1])), *rest)),
        changed(plan, terms=(replace(first, sample=replace(sample, weights=sample.weights[::-1])), *rest)),
        changed(plan, terms=(replace(first, rotations=(0, 1)), *rest)),
        changed(plan, terms=(replace(first, rotations=(1, 0, 2, 3)), *rest)),
        changed(plan, terms=rest),
        changed(plan, requant=Requant("other", (("div", 2), ("clip", 0, 255), ("round",)))),
        changed(plan, table=replace(table, values=entries)),
        changed(plan, table=replace(table, values=row)),
        changed(plan, table=replace(table, values=-table.values)),
        plan_of("mulut-sdy"),
        plan_of("srlut-S"),
    ]
    codes = set()
    for other in others:
        found = of_plans(plan, other)
        assert found
        for place, aspect in found:
            codes.add(aspect.fact.code)
            assert sayable(aspect.fact), aspect.fact
            between = words(fact("table.between", place=place, difference=aspect.fact))
            assert between.startswith(f"{place}: B " if place else "B ") and "the network" not in between
    assert {"table.padding", "table.weights", "table.rotations", "table.entries", "table.stages"} <= codes
