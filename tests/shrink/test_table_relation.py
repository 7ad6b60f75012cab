"""A relation between two tables is found again in the random tables that were made by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.lut.plan import Table
from twinnet.shrink.table_relation import Relation, order_of, relate

RELATIONS = {
    "same": Relation(),
    "sign": Relation("sign"),
    "order": Relation("order", order=(1, 3, 0, 2)),
    "shift": Relation("shift", high=-3),
    "last": Relation("last", low=2, high=9),
    "one entry": Relation("rows", single=True, low=24, high=24),
    "one row": Relation("rows", low=5, high=50),
    "some rows": Relation("rows", share=0.25, low=5, high=50),
    "all": Relation("all", low=1, high=80),
}


def table(seed: int) -> Table:
    values = np.random.default_rng(seed).integers(-120, 121, (25, 4)).astype(np.int8)
    return Table(values, axes=2, nodes=5, step=64)


@pytest.mark.parametrize("name", RELATIONS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_what_was_made_is_found_again(name: str, seed: int) -> None:
    relation, ours, rng = RELATIONS[name], table(seed), np.random.default_rng(seed + 1)
    rows = np.arange(25)
    other = relation.applied(ours, "values", rows, rng)
    assert other.dtype == np.int8 and other.shape == ours.values.shape
    found = relate(ours, "values", rows, ours.values, other)
    assert found.kind == relation.kind
    if relation.kind in ("last", "rows", "all"):
        assert relation.low <= found.low <= found.high <= relation.high
        assert found.single == relation.single
    if relation.kind == "rows":
        assert (found.share > 0) == (relation.share > 0)
    if relation.kind == "order":
        assert found.order == relation.order


def test_a_row_of_its_own_is_chosen_among_those_that_are_read() -> None:
    ours = table(0)
    for seed in range(8):
        other = RELATIONS["one row"].applied(ours, "values", np.array([3, 7]), np.random.default_rng(seed))
        (row,) = np.flatnonzero((other != ours.values).any(axis=1))
        assert row in (3, 7)


@pytest.mark.parametrize(
    ("cause", "kind", "several"),
    [
        ("", "rows", False),
        ("the twin has other entries in 5 of 25 rows, by 3 on average", "rows", True),
        ("the twin has other entries in 25 of 25 rows, by 3: as from another export or training", "all", False),
        ("the twin has other entries only where a tap is at the last node, in 2 of 25 rows", "last", False),
        ("the twin looks up bin 3 with node 256 where its table was made with 255", "last", False),
    ],
)  # fmt: skip
def test_one_row_leaves_open_what_the_cause_says(cause: str, kind: str, several: bool) -> None:
    ours = table(0)
    rows, theirs = np.array([4]), ours.values[[4]] + 1
    found = relate(ours, "values", rows, ours.values[rows], theirs, cause)
    assert (found.kind, found.share > 0) == (kind, several)


def test_what_is_no_order_is_none() -> None:
    assert order_of(np.array([[1, 2]]), np.array([[1, 3]])) is None
