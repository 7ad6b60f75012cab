"""One lookup explained gives the very integers of the whole plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from twinnet import lut
from twinnet.lut.executors import make
from twinnet.lut.explain import explain_lookup, payload_at
from twinnet.lut.plan import INPUT, Plan
from twinnet.lut.reference import lookup_term
from twinnet.restore.nets import auto, mulut, spf, srlut

NETS: dict[str, Callable[[], Plan]] = {
    "simplex": lambda: _plan(mulut.build("sdy", stages=2, scale=2, width=4)),
    "spf": lambda: _plan(spf.build("s", scale=2, width=4)),
    "auto": lambda: _plan(auto.build_mulut(1, stages=2, scale=2, window=3, width=4)),
    "two axes": lambda: _plan(srlut.build("V", scale=4, width=4)),
    "banded": lambda: lut.compress(
        _plan(mulut.build("sd", stages=1, scale=2, width=4)), axes="xyz", width=2, interval=5
    ),
    "multilinear": lambda: _changed(_plan(srlut.build("F", scale=2, width=4)), interpolation="multilinear"),
    "srlut-2021": lambda: _changed(_plan(srlut.build("S", scale=2, width=4)), compat="srlut-2021"),
}


def _plan(net: lut.LutNet) -> Plan:
    return lut.lower(lut.export(net.eval()))


def _changed(plan: Plan, **fields: object) -> Plan:
    stages = [replace(s, terms=tuple(replace(t, **fields) for t in s.terms)) for s in plan.stages]  # type: ignore[arg-type]
    return Plan.build(stages, plan.tables)


@pytest.fixture(params=NETS, scope="module")
def plan(request: pytest.FixtureRequest) -> Plan:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NETS[request.param]()


@pytest.fixture(scope="module")
def seen(plan: Plan) -> dict[str, np.ndarray]:
    plane = np.random.default_rng(5).integers(0, 256, (7, 9), dtype=np.uint8)
    plane[:2] = 255
    found: dict[str, np.ndarray] = {INPUT: plane[None].astype(np.int64)}
    make(plan, "numpy").record(plane, lambda name, array: found.update({name: array.astype(np.int64)}))
    return found


def test_every_lookup_adds_up_to_the_engine_s(plan: Plan, seen: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(6)
    for stage in plan.stages:
        for term in stage.terms:
            for r in term.rotations:
                whole = lookup_term(term, plan.tables[term.table], stage.cell, seen, r)
                recorded = seen[f"{stage.name}.{term.name}.rot{r}.sr"]
                for _ in range(6):
                    i, j = (int(rng.integers(n)) for n in whole.shape[1:])
                    found = explain_lookup(plan, stage, term, r, seen, (i, j))
                    assert list(found.numerator) == whole[:, i, j].tolist() == recorded[:, i, j].tolist()
                    assert sum(v.weight for v in found.vertices) == found.denominator
                    assert found.denominator == term.denominator(plan.tables[term.table])


def test_a_pixel_leads_to_its_payload(plan: Plan, seen: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(7)
    for stage in plan.stages:
        for term in stage.terms:
            for r in term.rotations:
                placed, raw = (seen[f"{stage.name}.{term.name}.rot{r}{end}"] for end in ("", ".sr"))
                for _ in range(6):
                    c, y, x = (int(rng.integers(n)) for n in placed.shape)
                    i, j, element = payload_at(stage, r, y, x, c)
                    assert raw[element, i, j] == placed[c, y, x]
