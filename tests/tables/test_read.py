"""A plan as canonical layers gives the integers of its interpreter, at every site."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.layers import evaluate, evaluate_with_error
from twinnet.lut.plan import sites
from twinnet.lut.reference import run_reference
from twinnet.tables.read import read_plan

KINDS = {"planes", "stack_planes", "lookup", "place", "sum_lookups", "requant"}
IMAGES = np.random.default_rng(5).integers(0, 256, (1, 2, 9, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "compressed"),
    [("srlut-S", False), ("mulut-sdy", False), ("mulut-sdy", True), ("spf", True), ("auto-mulut", False)],
)
def test_every_site_holds_what_the_interpreter_gives(name: str, compressed: bool) -> None:
    plan = lut.lower(random_net(name, compressed=compressed))
    graph = read_plan(plan)
    assert {layer.kind for layer in graph} <= KINDS
    names = [s.name for s in sites(plan)]
    found = evaluate(graph, {"image": torch.from_numpy(IMAGES)}, keep=names)
    units = {s.name: s.denominator for s in sites(plan)}
    for plane in range(2):
        seen: dict[str, np.ndarray] = {}
        run_reference(plan, IMAGES[0, plane], lambda n, a, s=seen: s.update({n: np.array(a)}))
        assert set(seen) == set(names)
        for site, wanted in seen.items():
            got = found[site].numpy()[plane] * units[site]
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6, err_msg=site)


def test_floats_are_images_and_bytes_are_pixels() -> None:
    graph = read_plan(lut.lower(random_net("srlut-S")))
    as_bytes = evaluate(graph, {"image": torch.from_numpy(IMAGES)})
    as_floats = evaluate(graph, {"image": torch.from_numpy(IMAGES / np.float32(255))})
    assert all(torch.equal(as_bytes[n], as_floats[n]) for n in as_bytes)


def test_an_entry_may_be_off_by_its_slack_and_no_more() -> None:
    plan = lut.lower(random_net("srlut-S"))
    image = {"image": torch.from_numpy(IMAGES)}
    sr, group = "stage1.in_c0.b0.rot0.sr", "stage1.in_c0"
    for slack in (0, 1):
        found = evaluate_with_error(
            read_plan(plan, slack=slack), image, {}, unit=2.0**-24, keep=[sr, group, "stage1"]
        )
        bounds = {n: float(b.max()) for n, (_, b) in found.items() if b is not None}
        assert bounds[sr] == pytest.approx(slack, abs=1e-4)
        assert bounds[group] == pytest.approx(4 * slack, abs=1e-4)
        assert bounds["stage1"] <= 4 * slack + 1 + 1e-4
