"""Facts in result.json: the words as a string, with `code` and `params`. Older files with words only are read too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from twinnet.report.sentences import words
from twinnet.result import Cause, Coverage, Fact, Finding, Guard, Judged, PairResult, said

__all__ = ["FACTS", "keys", "with_facts", "written"]

FACTS: dict[type, dict[str, str]] = {
    Cause: {"fact": "sentence"},
    Guard: {"fact": "message"},
    Coverage: {"note": "note"},
    Judged: {"reason": "reason"},
    PairResult: {"reason": "reason"},
    Finding: {"reason": "reason", "confirmation": "confirmation", "tie": "tie"},
}
"""The fields of each class that hold a fact, and what their words are called in the file; the first is the main one."""

_VALUES = {Cause: ("network_value", "twin_value")}
_ODD = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def keys(kind: type) -> tuple[str, ...]:
    """The keys of an object of this class in the file.

    >>> keys(Guard)
    ('name', 'message', 'code', 'params', 'weakens')
    """
    named = FACTS.get(kind, {})
    found: list[str] = []
    for f in fields(kind):
        found += [named[f.name], *_keys(named, f.name)] if f.name in named else [f.name]
    return (*found, *_VALUES.get(kind, ()))


def written(value: Any, plain: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert an object that holds facts to JSON types."""
    named = FACTS[type(value)]
    data: dict[str, Any] = {}
    for f in fields(value):
        if f.name not in named:
            data[f.name] = plain(getattr(value, f.name))
            continue
        fact: Fact | None = getattr(value, f.name)
        text = named[f.name]
        code, params = _keys(named, f.name)
        data[text] = plain(words(fact))
        data[code] = plain(fact.code) if fact is not None else ""
        data[params] = plain(fact.params) if fact is not None else {}
    for name in _VALUES.get(type(value), ()):
        data[name] = plain(getattr(value, name))
    return data


def _keys(named: Mapping[str, str], field: str) -> tuple[str, str]:
    main = next(iter(named)) == field
    return ("code", "params") if main else (f"{field}_code", f"{field}_params")


def with_facts(data: Any) -> Any:
    """Replace the three fields of each fact in a result's data by the fact; malformed data is left unchanged."""
    if not isinstance(data, dict):
        return data
    if isinstance(several := data.get("results"), list):
        return {**data, "results": [with_facts(one) for one in several]}
    made = dict(data)
    made["coverage"] = _read(Coverage, data.get("coverage", {}))
    for name, one in (
        ("guards", lambda guard: _read(Guard, guard)),
        ("pairs", _pair),
        ("outputs", _pair),
        ("findings", _finding),
        ("known_findings", _finding),
        ("contributors", _finding),
    ):
        if isinstance(several := made.get(name), list):
            made[name] = [one(value) for value in several]
    return made


def _pair(data: Any) -> Any:
    made = _read(PairResult, data)
    return {**made, "automatic": _read(Judged, made.get("automatic"))} if isinstance(made, dict) else made


def _finding(data: Any) -> Any:
    made = _read(Finding, data)
    return {**made, "cause": _read(Cause, made.get("cause"))} if isinstance(made, dict) else made


def _read(kind: type, data: Any) -> Any:
    """Read the facts of one object of this class."""
    if not isinstance(data, dict):
        return data
    made = dict(data)
    for name, text in FACTS[kind].items():
        code, params = (made.pop(key, None) for key in _keys(FACTS[kind], name))
        told = made.pop(text, "")
        if isinstance(told, str):
            made[name] = _fact(code, params, told, made)
        else:
            made[name] = told  # refused by its type
    return made


def _fact(code: Any, params: Any, text: str, data: Mapping[str, Any]) -> Fact | None:
    if isinstance(code, str) and code and isinstance(params, dict):
        values = {str(name): _native(value) for name, value in params.items()}
        return Fact(code, values, text if code != "said" else "")
    if not text:
        return None
    pair = {"network": data.get("network_value"), "twin": data.get("twin_value")}
    return said(text, **{name: _native(v) for name, v in pair.items() if v is not None})


def _native(value: Any) -> Any:
    if isinstance(value, str):
        return _ODD.get(value, value)
    if isinstance(value, list):
        return tuple(_native(v) for v in value)
    if isinstance(value, dict):
        if set(value) == {"code", "params"} and isinstance(value["params"], dict):
            return Fact(str(value["code"]), {str(k): _native(v) for k, v in value["params"].items()})
        return {k: _native(v) for k, v in value.items()}
    return value
