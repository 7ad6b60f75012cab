"""result.json comes back as it was, and a file that is not one is refused by name."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report import examples
from twinnet.errors import UsageError
from twinnet.report.json_file import dump_environment, dump_result, load_result
from twinnet.result import (
    SCHEMA,
    Cause,
    Coverage,
    Difference,
    Fact,
    Finding,
    Guard,
    InputsInfo,
    PairResult,
    Result,
    ResultSet,
    SideInfo,
    TaskMetric,
    fact,
    said,
)
from twinnet.site import Site

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FLOAT = st.floats()
INT = st.integers(-(2**70), 2**70)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def several(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=2).map(tuple)


SITE = st.builds(
    Site,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    INT,
    INT,
    TEXT,
    st.sampled_from(["input", "inner", "output"]),
    maybe(several(INT | TEXT)),
    TEXT,
)
DIFFERENCE = st.builds(
    Difference,
    INT,
    FLOAT,
    FLOAT,
    FLOAT,
    FLOAT,
    FLOAT,
    FLOAT,
    FLOAT,
    maybe(INT),
    INT,
    channel=maybe(INT),
    index=several(INT),
    value_twin=maybe(FLOAT),
    range_reference=st.tuples(FLOAT, FLOAT),
    hull=several(st.tuples(FLOAT, FLOAT)),
)
WORDS = TEXT.filter(lambda t: t not in ("NaN", "Infinity", "-Infinity"))
VALUE = st.recursive(
    st.none() | st.booleans() | INT | FLOAT | WORDS,
    lambda inner: several(inner) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
FACT = (
    st.builds(said, WORDS, network=VALUE)
    | st.builds(fact, st.just("padding.mode"), network=WORDS, twin=VALUE)
    | st.builds(Fact, st.just("nobody.knows"), st.dictionaries(WORDS, VALUE, max_size=2))
)
STATUS = st.sampled_from(["pass", "fail", "excused", "untested", "not judged"])
PAIR = st.builds(
    PairResult,
    SITE,
    SITE,
    STATUS,
    reason=maybe(FACT),
    born=maybe(FLOAT),
    ratio=maybe(FLOAT),
    limit=FLOAT,
    segment=several(TEXT),
    difference=DIFFERENCE,
)
CAUSE = st.builds(Cause, TEXT, FACT, FLOAT, maybe(SITE))
FINDING = st.builds(
    Finding,
    SITE,
    SITE,
    FLOAT,
    FLOAT,
    FLOAT,
    FLOAT,
    maybe(FLOAT),
    maybe(FLOAT),
    maybe(CAUSE),
    several(TEXT),
    INT,
    maybe(FACT),
)
SIDE = st.builds(SideInfo, TEXT, TEXT, TEXT, parameters=maybe(INT))
GUARD = st.builds(Guard, st.sampled_from(["null baseline", "note"]), FACT, st.booleans())
INPUTS = st.builds(InputsInfo, INT, TEXT, st.booleans(), st.dictionaries(TEXT, TEXT, max_size=2))
RESULT = st.builds(
    Result,
    st.sampled_from(["PASS", "FAIL", "ERROR"]),
    SIDE,
    SIDE,
    INPUTS,
    st.builds(Coverage, INT, INT, unmatched=several(TEXT)),
    several(GUARD),
    st.sampled_from(["strong", "weak"]),
    several(PAIR),
    several(PAIR),
    INT,
    maybe(SITE),
    several(FINDING),
    several(FINDING),
    several(st.builds(TaskMetric, TEXT, maybe(FLOAT), maybe(FLOAT))),
    TEXT,
    several(TEXT),
    TEXT,
    TEXT,
    TEXT,
    st.dictionaries(TEXT, FLOAT, max_size=2),
    st.dictionaries(TEXT, TEXT, max_size=2),
    TEXT,
)


def same(a: Any, b: Any) -> bool:
    """Equal in type and value, where NaN equals NaN and -0.0 is not 0.0."""
    if is_dataclass(a) and not isinstance(a, type):
        own = [f.name for f in fields(a) if (type(a), f.name) != (Fact, "text")]  # a file's words
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in own)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(v, b[k]) for k, v in a.items())
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def through(result: Result | ResultSet, folder: Path) -> Result | ResultSet:
    text = dump_result(result)
    json.loads(text, parse_constant=refuse_constant)
    (folder / "result.json").write_text(text, encoding="utf-8")
    return load_result(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@settings(deadline=None, max_examples=60)
@given(result=RESULT)
def test_a_result_survives_the_round_trip(result: Result, folder: Path) -> None:
    assert same(through(result, folder), result)


@settings(deadline=None, max_examples=20)
@given(results=st.lists(RESULT, max_size=3).map(tuple))
def test_several_results_survive_the_round_trip(results: tuple[Result, ...], folder: Path) -> None:
    both = ResultSet(results)
    assert same(through(both, folder), both)
    data = json.loads(dump_result(both))
    assert list(data) == ["verdict", "results", "schema"]
    assert data["verdict"] == both.verdict


def test_fields_stand_in_the_documented_order() -> None:
    data = json.loads(dump_result(examples.failing()))
    documented = (
        "verdict network twin inputs coverage guards evidence failing first_failing findings contributors"
    )
    assert list(data)[:13] == [*documented.split(), "timings", "environment"]
    assert set(data) == {f.name for f in fields(Result)} - {"seeds", "tensors"}
    keys = ["site", "twin_site", "error", "floor", "ratio", "born", "impact", "born_share", "cause"]
    assert list(data["findings"][0])[:9] == keys
    assert set(data["findings"][0]["cause"]) == {
        "kind",
        "explains",
        "sentence",
        "code",
        "params",
        "layer",
        "network_value",
        "twin_value",
    }


def test_numpy_values_of_a_cause_become_plain(tmp_path: Path) -> None:
    base = examples.failing(12)
    cause = Cause(
        "weights", said("one channel is off", network=np.array([1.5, np.nan]), twin=np.float32(0.5)), 1.0
    )
    loaded = through(replace(base, findings=(replace(base.findings[0], cause=cause),)), tmp_path)
    assert isinstance(loaded, Result)
    found = loaded.findings[0].cause
    assert found is not None
    assert same(found.network_value, (1.5, math.nan))
    assert found.twin_value == 0.5


def test_lone_surrogates_are_replaced_not_refused(tmp_path: Path) -> None:
    loaded = through(replace(examples.passing(), command="check caf\udce9.onnx"), tmp_path)
    assert isinstance(loaded, Result)
    assert loaded.command == "check caf\ufffd.onnx"


def test_a_moved_run_names_its_new_folder(tmp_path: Path) -> None:
    loaded = through(examples.failing(12), tmp_path)
    assert isinstance(loaded, Result)
    assert loaded.folder == str(tmp_path)
    (tmp_path / "openvino").mkdir()
    both = through(examples.several(), tmp_path)
    assert isinstance(both, ResultSet)
    assert [r.folder for r in both][2] == str(tmp_path / "openvino")
    assert [r.folder for r in both][1] == "runs/detector-onnxruntime"


GOOD = dump_result(examples.weak())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a readable result"),
        (GOOD[: len(GOOD) // 2], "not a readable result"),
        ("[1, 2]", "no verdict"),
        ("{}", "no verdict"),
        ('{"verdict": "PASS"}', "states no schema"),
        ('{"verdict": "PASS", "schema": 1}', "network"),
        ('{"verdict": "MAYBE", "schema": 1}', "verdict"),
        ('{"verdict": "PASS", "schema": 1, "results": [{}]}', "results.0"),
        ('{"verdict": "PASS", "schema": 1, "results": 3}', "results"),
        (GOOD.replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'), f"schema {SCHEMA + 1}"),
        (GOOD.replace('"samples": 1', '"samples": "many"'), "inputs.samples"),
        ("[" * 100_000, "not a readable result"),
        ("\x00\x01\x02", "not a readable result"),
    ],
)
def test_what_is_not_a_result_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_result(tmp_path)
    assert str(file) in str(caught.value)
    assert says in str(caught.value)


def test_missing_and_unreadable_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"result\.json"):
        load_result(tmp_path)
    with pytest.raises(UsageError, match="nowhere"):
        load_result(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(UsageError, match="binary"):
        load_result(tmp_path / "binary")


def test_the_environment_of_several_twins_is_one(tmp_path: Path) -> None:
    data = json.loads(dump_environment(examples.several()))
    assert data["environment"] == examples.ENVIRONMENT
    assert len(data["commands"]) == 2
