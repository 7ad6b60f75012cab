"""Every family names a planted fault, from the tensors alone and from the two graphs."""

from __future__ import annotations

import pytest
import torch.nn.functional as F

from tests.blame.cases import CASES, Case, seeded
from twinnet.blame import FAMILIES, KINDS, Problem, solve
from twinnet.blame.constants import other_constant
from twinnet.layers.graph import Graph, Layer

_STATIC = [c for c in CASES if c.graph is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_planted_fault_is_named_from_the_tensors_alone(case: Case) -> None:
    found = solve(case.problem())
    assert found.cause is not None, found.reason
    assert found.cause.kind == case.kind, found.cause.sentence
    assert found.cause.explains >= 0.99
    if case.name != "bias of a channel, in the file":
        assert case.said in found.cause.sentence


@pytest.mark.parametrize("case", _STATIC, ids=lambda c: c.name)
def test_a_planted_fault_is_named_from_the_two_graphs(case: Case) -> None:
    found = solve(case.problem(static=True))
    assert found.cause is not None, found.reason
    assert found.cause.kind == case.kind, found.cause.sentence


def test_every_family_has_a_case_and_every_case_a_documented_kind() -> None:
    named = {c.kind for c in CASES}
    assert named <= set(KINDS)
    # Room is kept for what no canonical layer shows yet.
    assert set(KINDS) - named == {"table", "nondeterminism"}
    assert len(FAMILIES) >= 18


@pytest.mark.parametrize("turned", [False, True])
def test_another_name_of_the_same_operator_is_no_cause(turned: bool) -> None:
    x, w, b = seeded(9, 16), seeded(16, 16, seed=1), seeded(16, seed=2)
    theirs = b.clone()
    theirs[3] += 0.5
    ours = Layer("linear", ("x", "w", "b"), ("y",))
    gemm = Layer("gemm", ("x", "v", "c"), ("y",), {"trans_b": not turned})
    twin = Graph((gemm,), ("x",), ("y",), {"v": w.t() if turned else w, "c": theirs})
    found = solve(Problem((ours,), {"w": w, "b": b}, {"x": x}, "y", F.linear(x, w, theirs), twin=twin))
    assert found.cause is not None and found.cause.kind == "bias", found
    assert "bias of channel 3" in found.cause.sentence


@pytest.mark.parametrize(("channels", "other"), [(1, 1), (4, 4), (4, 1)])
def test_rounded_weights_are_said_whatever_the_number_of_channels(channels: int, other: int) -> None:
    w = seeded(channels, 6, 3, 3, seed=1)
    theirs = w.clone()
    theirs[:other] = w[:other].half().float()
    kind, found = other_constant("conv", 1, w.double(), theirs.double())
    assert (kind, str(found)) == (
        "precision",
        "the weights are rounded to float16"
        if other == channels
        else "weights of channel 0 are rounded to float16",
    )
