"""Every family names a planted fault, from the tensors alone and from the two graphs."""

from __future__ import annotations

import pytest

from tests.blame.cases import CASES, Case
from twinnet.blame import FAMILIES, KINDS, solve

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
