"""The keywords of the verbs: spelt once, checked by name, shown one by one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

import twinnet
from twinnet.checking.options import (
    CheckKeywords,
    CompareKeywords,
    LadderKeywords,
    Limits,
    Options,
    RecordKeywords,
    StagesKeywords,
)
from twinnet.judge import tolerance
from twinnet.testing import assert_same

VERBS: dict[Callable[..., Any], type] = {
    twinnet.check: CheckKeywords,
    twinnet.stages: StagesKeywords,
    twinnet.ladder: LadderKeywords,
    twinnet.record: RecordKeywords,
    twinnet.compare: CompareKeywords,
    assert_same: CheckKeywords,
}


def test_check_takes_every_option_by_its_type() -> None:
    names = {"Tolerance": tolerance.Tolerance, "Tolerances": tolerance.Tolerances}
    stated = get_type_hints(CheckKeywords, localns=names)
    kept = get_type_hints(Options, localns=names)
    assert stated.keys() == kept.keys()
    # Any sequence of patterns is kept as a tuple, no limits are an object without limits, no report a silent one.
    loose = {"watch", "skip", "limits", "progress"}
    assert {n: t for n, t in stated.items() if n not in loose} == {
        n: t for n, t in kept.items() if n not in loose
    }


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_keywords_are_shown_one_by_one(verb: Callable[..., Any]) -> None:
    parameters = inspect.signature(verb).parameters
    defaults = {**{field.name: field.default for field in fields(Options)}, "progress": None}
    assert inspect.Parameter.VAR_KEYWORD not in {p.kind for p in parameters.values()}
    for name in VERBS[verb].__annotations__:
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == defaults[name]


def test_check_explains_every_keyword() -> None:
    told = set(re.findall(r"^        (\w+): ", twinnet.check.__doc__ or "", re.M))
    assert set(inspect.signature(twinnet.check).parameters) <= told


def test_other_keywords_are_refused_by_name() -> None:
    for verb, word in ((twinnet.check, "tolerence"), (twinnet.stages, "watch"), (twinnet.ladder, "keep")):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{word}'"):
            verb("net.py:build", **{word: 1})
    with pytest.raises(TypeError, match="did you mean 'tolerance'"):
        Options.of(CheckKeywords, {"tolerence": 1})  # type: ignore[typeddict-item]


def test_what_is_given_is_what_is_kept() -> None:
    found = Options.of(CheckKeywords, {"watch": ["a", "b"], "limits": None, "seed": 3})
    assert found == Options(watch=("a", "b"), seed=3) and found.limits == Limits()
