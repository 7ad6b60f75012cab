"""result.json: one check (or several) as text, and back.

The file is plain JSON that any reader accepts: figures that JSON cannot spell are written as the strings
"NaN", "Infinity" and "-Infinity" and read back as numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.report.json_facts import FACTS, with_facts, written
from twinnet.result import SCHEMA, Fact, Result, ResultSet, StagedResult

__all__ = ["FILE_NAME", "dump_environment", "dump_result", "load_result", "plain", "warm"]

FILE_NAME = "result.json"
_IN_MEMORY = ("seeds", "tensors")

_FIRST = (
    "verdict",
    "network",
    "twin",
    "inputs",
    "coverage",
    "guards",
    "evidence",
    "failing",
    "first_failing",
    "findings",
    "contributors",
    "timings",
    "environment",
)


def dump_result(result: Result | ResultSet) -> str:
    """The text of result.json, ending in a newline.

    >>> from twinnet.result import InputsInfo, Result, SideInfo
    >>> text = dump_result(Result("PASS", SideInfo("net", "torch"), SideInfo("onnxruntime", "onnxruntime"),
    ...                           InputsInfo(1, "synthetic", True)))
    >>> list(json.loads(text))[:4]
    ['verdict', 'network', 'twin', 'inputs']
    """
    if isinstance(result, ResultSet):
        data: dict[str, Any] = {
            "verdict": result.verdict,
            "results": [_result(r) for r in result.results],
            "schema": result.schema,
        }
        if isinstance(result, StagedResult):
            data = {**_staged(result), **data}
    else:
        data = _result(result)
    return _laid_out(data) + "\n"


def dump_environment(result: Result | ResultSet) -> str:
    """The text of environment.json: what the check ran with, and on which command."""
    results = result.results if isinstance(result, ResultSet) else (result,)
    merged: dict[str, str] = {}
    for one in results:
        merged.update(one.environment)
    commands = list(dict.fromkeys(one.command for one in results if one.command))
    return json.dumps({"environment": plain(merged), "commands": plain(commands)}, indent=1) + "\n"


def load_result(path: str | Path) -> Result | ResultSet:
    """Read the result of a run folder, or of a result.json itself.

    `folder` of what comes back is the folder it was read from, so that a run that was moved or downloaded
    still names its own files. Anything unreadable is a UsageError that names the file.
    """
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    data = _read(file)
    several = "results" in data
    for one in data["results"] if several and isinstance(data["results"], list) else [data]:
        if isinstance(one, dict):
            for name in _IN_MEMORY:
                one.pop(name, None)  # whoever writes them into a file means no good
    staged = several and "stages" in data
    adapter = _adapters()[2 if staged else 1 if several else 0]
    kept = [f.name for f in fields(StagedResult if staged else ResultSet)]
    try:
        result = adapter.validate_python(with_facts(_keep(data, kept) if several else data))
    except ValueError as error:
        raise UsageError(f"{file} is not a twinnet result: {_first_problem(error)}") from None
    return _located(result, file.parent)


def plain(value: Any) -> Any:
    """`value` in JSON's own types: dataclasses as dicts, sequences as lists, odd floats as strings.

    >>> plain({"a": (1, float("inf"))})
    {'a': [1, 'Infinity']}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Fact):
        return {"code": plain(value.code), "params": plain(value.params)}
    if type(value) in FACTS:
        return written(value, plain)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {_encodable(str(k)): plain(v) for k, v in value.items()}
    if callable(tolist := getattr(value, "tolist", None)):  # a numpy or torch value that a cause carries
        return plain(tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return _encodable(str(value))


def _laid_out(data: dict[str, Any], indent: str = "") -> str:
    """One line per field, lists one item per line: short, and still fit for a person and a diff."""
    lines = []
    for key, value in data.items():
        if key == "results":
            items = [_laid_out(item, f"{indent}  ") for item in value]
        elif isinstance(value, list):
            items = [json.dumps(item, allow_nan=False) for item in value]
        else:
            lines.append(f"{indent} {json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
            continue
        body = "".join(f"\n{indent}  {item}," for item in items)[:-1] + (f"\n{indent} " if items else "")
        lines.append(f"{indent} {json.dumps(key)}: [{body}]")
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _result(result: Result) -> dict[str, Any]:
    data = plain(replace(result, seeds=(), tensors={}))
    for name in _IN_MEMORY:
        del data[name]
    return {key: data[key] for key in (*_FIRST, *(k for k in data if k not in _FIRST))}


def _staged(result: StagedResult) -> dict[str, Any]:
    """What stands before the single results: where the difference enters, and every stage."""
    entered = result.entered
    own = {
        f.name: plain(getattr(result, f.name)) for f in fields(result) if f.name not in ("results", "schema")
    }
    stages = own.pop("stages")
    return {"verdict": result.verdict, "entered": entered and entered.name, **own, "stages": stages}


def _encodable(text: str) -> str:
    """Lone surrogates (from a file name that is not UTF-8) cannot be written: replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"no result in {file}", hint="name a run folder; `twinnet check` leaves one under runs/"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        if file.name != FILE_NAME and (file.parent / FILE_NAME).exists():
            raise UsageError(f"{file} is not a run", hint=f"name its folder: {file.parent}") from None
        raise UsageError(
            f"{file} is not a readable result: {error}",
            hint="it is damaged or of another kind; run the check again",
        ) from None
    if not isinstance(data, dict) or "verdict" not in data:
        raise UsageError(f"{file} is not a twinnet result: it has no verdict")
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise UsageError(f"{file} is not a twinnet result: it states no schema")
    if schema > SCHEMA:
        raise UsageError(
            f"{file} has schema {schema}; this twinnet reads up to {SCHEMA}",
            hint="pip install --upgrade twinnet",
        )
    return data


def warm() -> None:
    """Prepare to read results, which takes longer than reading one."""
    _adapters()


@cache
def _adapters() -> tuple[Any, Any, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(Result), TypeAdapter(ResultSet), TypeAdapter(StagedResult)


def _keep(data: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {k: data[k] for k in keys if k in data}


def _first_problem(error: ValueError) -> str:
    details = getattr(error, "errors", None)
    if details is None:
        return str(error)
    first = details()[0]
    return f"{'.'.join(str(p) for p in first['loc'])}: {first['msg']}"


def _located(result: Result | ResultSet, folder: Path) -> Result | ResultSet:
    if isinstance(result, Result):
        return replace(result, folder=str(folder)) if result.folder else result
    children = tuple(
        replace(r, folder=str(folder / Path(r.folder).name))
        if r.folder and (folder / Path(r.folder).name).is_dir()
        else r
        for r in result.results
    )
    if isinstance(result, StagedResult) and result.folder:
        return replace(result, results=children, folder=str(folder))
    return replace(result, results=children)
