"""Every fact has a sentence that takes its parameters, and what nobody has a sentence for is said as it is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import twinnet
from tests.blame.cases import CASES, Case
from twinnet.blame.search import proposals
from twinnet.report.sentences import SENTENCES, sentence, words
from twinnet.report.sentences.registry import Saying
from twinnet.result import Fact, fact, said

SOURCE = Path(twinnet.__file__).parent


def _calls() -> Iterator[tuple[str, int, str, list[str | None]]]:
    """Every `fact("code", ...)` of the package: file, line, code, and the names of its parameters (None: `**`)."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fact"
            ):
                continue
            code = node.args[0] if node.args else None
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                where = file.relative_to(SOURCE).as_posix()
                yield where, node.lineno, code.value, [k.arg for k in node.keywords]


CALLS = [c for c in _calls() if c[0] != "result/facts.py"]


@pytest.mark.parametrize(
    ("code", "names"), [(c[2], c[3]) for c in CALLS], ids=[f"{c[0]}:{c[1]}-{c[2]}" for c in CALLS]
)
def test_a_fact_has_a_sentence_that_takes_its_parameters(code: str, names: list[str | None]) -> None:
    words(said("loads the sentences"))
    assert code in SENTENCES
    say = SENTENCES[code]
    if isinstance(say, Saying):
        wanted = {name.partition("[")[0] for _, name, _, _ in Formatter().parse(say.text) if name is not None}
        assert None in names or wanted <= set(names), f"{code} needs {wanted - set(names)}"
        return
    known = inspect.signature(say).parameters
    needed = {n for n, p in known.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    given = {n for n in names if n is not None}
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        assert given <= set(known), f"{code} does not say {given - set(known)}"
    assert None in names or needed <= given, f"{code} needs {needed - given}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_hypothesis_can_be_said(case: Case) -> None:
    problem = case.problem(static=case.graph is not None)
    for candidate in proposals(problem):
        text = words(candidate.fact)
        assert text and "{" not in text and "None" not in text, candidate.fact


def test_an_unknown_code_is_said_plainly() -> None:
    assert (
        words(fact("other.package", network=(1, 2), twin="edge")) == "other.package: network (1,2), twin edge"
    )
    assert words(fact("other.package")) == "other.package"
    assert words(None) == ""


def test_words_of_a_file_stand_in_for_a_code_that_nobody_knows() -> None:
    assert words(Fact("other.package", {"by": 3}, "three frames late")) == "three frames late"


def test_parameters_from_a_file_may_be_anything() -> None:
    damaged = Fact("born.overflow", {"network": "much", "end": None}, "it overflows")
    assert words(damaged) == "it overflows"
    # What this program says itself must fit.
    with pytest.raises(ValueError):
        words(Fact("born.overflow", {"network": "much", "end": None}))


def test_a_package_registers_a_sentence_of_its_own() -> None:
    @sentence("late.frames")
    def _(by: int) -> str:
        return f"the twin is {by} frames late"

    try:
        assert str(fact("late.frames", by=2)) == "the twin is 2 frames late"
        assert str(fact("because", what=said("it fails"), why=fact("late.frames", by=1))) == (
            "it fails: the twin is 1 frames late"
        )
    finally:
        del SENTENCES["late.frames"]


def test_what_and_why_are_said_once_where_they_are_the_same() -> None:
    shape = fact("shape.differs", network=(1, 2), twin=(2, 1))
    assert words(fact("because", what=shape, why=shape)) == words(shape)
    other = fact("shape.differs", network=(1, 2), twin=(3, 1))
    assert words(fact("because", what=shape, why=other)) == f"{words(shape)}: {words(other)}"


def test_what_was_not_exercised_is_said_layer_by_layer() -> None:
    def side(layer: str, side: str, bound: float, source: str) -> Fact:
        return fact("exercise.side", layer=layer, kind="clip", side=side, bound=bound, source=source)

    both = [
        side("act hardswish", s, b, f"net.py:{n}") for n in (3, 4) for s, b in (("below", -3), ("above", 3))
    ]
    others = [side(f"l{i} relu", "below", 0, f"net.py:{i}") for i in range(3)]
    told = str(fact("exercise.missing", sides=(*both, *others), more=0))
    assert told == (
        "not exercised by this data: act hardswish (net.py:3) never sees a value below -3 or above 3; "
        "act hardswish (net.py:4) never sees a value below -3 or above 3; l0 relu never sees a value below 0; "
        "and 2 more, in result.json"
    )
