"""Every family names a planted fault, from the tensors alone and from the two graphs."""

from __future__ import annotations

import pytest
import torch.nn.functional as F

from tests.blame.cases import CASES, Case, seeded
from twinnet.blame import FAMILIES, KINDS, Problem, solve
from twinnet.blame.relations import other_constant
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


def test_copies_in_the_twins_graph_do_not_stand_for_a_layer() -> None:
    """A converter's moves that move nothing are copies; one of them is not what became of the ReLU."""
    x, w = seeded(9, 16), seeded(16, 16, seed=1)
    ours = (
        Layer("relu", ("x",), ("a",)),
        Layer("linear", ("a", "w"), ("h",)),
        Layer("tanh", ("h",), ("t",)),
        Layer("add", ("z", "t"), ("y",)),
    )
    theirs = (
        Layer("identity", ("z",), ("twin/z",)),
        Layer("linear", ("x", "twin/w"), ("twin/h",)),
        Layer("tanh", ("twin/h",), ("twin/t",)),
        Layer("add", ("twin/z", "twin/t"), ("twin/y",)),
        Layer("identity", ("twin/y",), ("y",)),
    )
    z = seeded(9, 16, seed=2)
    twin = Graph(theirs, ("x", "z"), ("y",), {"twin/w": w})
    found = solve(Problem(ours, {"w": w}, {"x": x, "z": z}, "y", z + F.linear(x, w).tanh(), twin=twin))
    assert found.cause is not None, found.reason
    assert (found.cause.kind, found.cause.sentence) == ("activation", "the twin leaves out the relu")


@pytest.mark.parametrize("kept", ["p", "q"])
def test_a_sum_left_out_is_named_whichever_operand_was_kept(kept: str) -> None:
    """Also where the twin holds a copy in its place, and the layer behind it reads that."""
    x = {n: seeded(9, 16, seed=k) for k, n in enumerate("pqz")}
    ours = (Layer("add", ("p", "q"), ("a",)), Layer("mul", ("a", "z"), ("y",)))
    theirs = (Layer("identity", (kept,), ("twin/a",)), Layer("mul", ("twin/a", "z"), ("y",)))
    twin = Graph(theirs, ("p", "q", "z"), ("y",))
    found = solve(Problem(ours, {}, x, "y", x[kept] * x["z"], twin=twin))
    assert found.cause is not None, found.reason
    assert (found.cause.kind, found.cause.sentence) == ("operator", "the twin leaves out the add")


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
