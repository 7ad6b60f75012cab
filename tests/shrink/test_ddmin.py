"""Delta debugging finds parts from which nothing can be left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinnet.shrink.ddmin import ddmin


@given(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1)))
)
def test_finds_exactly_what_is_needed(case: tuple[int, set[int]]) -> None:
    n, needed = case
    assert ddmin(range(n), lambda part: needed <= set(part)) == tuple(sorted(needed))


@given(st.integers(2, 30), st.integers(0, 2**16))
def test_nothing_can_be_left_out_of_the_answer(n: int, seed: int) -> None:
    def shows(part: tuple[int, ...]) -> bool:  # needs some of each of three kinds, and enough of them
        return {i % 3 for i in part} >= {0, 1} and sum(part) >= seed % max(sum(range(n)), 1)

    if not shows(tuple(range(n))):
        return
    found = ddmin(range(n), shows)
    assert shows(found)
    assert not any(shows(tuple(x for x in found if x != y)) for y in found)


def test_one_item_is_left_alone() -> None:
    assert ddmin(["a"], lambda part: True) == ("a",)
