"""Several rounds of one twin as one measurement."""

from __future__ import annotations

from twinnet.engines.timing import LayerTime, Span, Timed
from twinnet.profile.turns import merged


def _round(names: list[str], seconds: float) -> Timed:
    tensors = ["a", "b", "b"]
    steps = [
        LayerTime(name, "Conv", (Span(0, seconds * (i + 1)),), (tensors[i],)) for i, name in enumerate(names)
    ]
    return Timed(tuple(steps), (6 * seconds,), (6 * seconds,), (6 * seconds,))


def test_steps_that_an_engine_numbers_anew_are_the_same_steps() -> None:
    one = merged([_round(["x_1", "x_2", "x_3"], 1.0), _round(["x_7", "x_8", "x_9"], 2.0)])
    assert [step.name for step in one.steps] == ["x_1", "x_2", "x_3"]
    assert [step.per_run for step in one.steps] == [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]


def test_names_count_first() -> None:
    one = merged([_round(["x", "y", "z"], 1.0), _round(["x", "z", "y"], 2.0)])
    assert [step.per_run for step in one.steps] == [(1.0, 2.0), (2.0, 6.0), (3.0, 4.0)]


def test_steps_of_one_name_keep_their_own_times() -> None:
    """The same code at two places, as IREE's compiler leaves it."""
    one = merged([_round(["x", "y", "x"], 1.0), _round(["x", "y", "x"], 2.0)])
    assert [step.per_run for step in one.steps] == [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]
