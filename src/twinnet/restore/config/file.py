"""Reading `config.toml`: every complaint names its line and what would be allowed."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import ParseError, TOMLKitError

from twinnet.errors import UsageError
from twinnet.restore.config.base import Problem
from twinnet.restore.config.template import allowed_values
from twinnet.restore.config.whole import SECTIONS, VERSION, Config

__all__ = ["CONFIG_NAME", "load", "parse"]

CONFIG_NAME = "config.toml"


def load(path: str | Path) -> Config:
    """The config in a file, or in the folder of an experiment."""
    source = Path(path)
    if not source.exists():
        raise UsageError(f"no such experiment: {source}", hint=f"make one: twinnet lut new {source}")
    if source.is_dir():
        source = source / CONFIG_NAME
    try:
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{source.parent} is not an experiment: it has no {source.name}",
            hint=f"make one: twinnet lut new {source.parent}",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {error}") from error
    return parse(text, str(source))


def parse(text: str, where: str = CONFIG_NAME) -> Config:
    """The config in a text.

    >>> parse('''version = 1
    ... [model]
    ... type = "mulot"
    ... ''')
    Traceback (most recent call last):
    twinnet.errors.UsageError: config.toml:3: [model] type = 'mulot' is not valid; did you mean 'mulut'?
      allowed: srlut, mulut, cascade, spf, auto-mulut, auto-spf
    """
    try:
        document = tomlkit.parse(text)
    except ParseError as error:
        raise UsageError(f"{where}:{error.line}: not valid TOML: {error}") from error
    except TOMLKitError as error:
        raise UsageError(f"{where}: not valid TOML: {error}") from error
    version = document.pop("version", None)
    if version is not None:
        version = version.unwrap() if hasattr(version, "unwrap") else version
    _check_version(version, where, text)
    data: dict[str, Any] = document.unwrap()
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems = [_problem(dict(detail)) for detail in error.errors()]
    else:
        problems = list(config.problems())
        if not problems:
            return config
    lines = [_line(where, text, problem) for problem in problems]
    raise UsageError("\n".join(lines))


def _check_version(version: Any, where: str, text: str) -> None:
    if version is None:
        raise UsageError(
            f"{where}: no version is stated, so its keys cannot be trusted",
            hint=f"this twinnet writes `version = {VERSION}` at the top; see `twinnet lut new`",
        )
    place = f"{where}:{line_of(text, ('version',)) or 1}"
    if type(version) is not int or version < 1:
        raise UsageError(f"{place}: version = {version!r} is not valid", hint=f"allowed: 1 to {VERSION}")
    if version > VERSION:
        raise UsageError(
            f"{place}: version {version} is newer than this twinnet, which reads up to {VERSION}",
            hint="update twinnet, or write a new file with `twinnet lut new`",
        )


def line_of(text: str, key: tuple[str, ...]) -> int | None:
    """The line of a key, else that of its section, else None.

    >>> line_of("version = 1\\n[model]\\ntype = 'mulut'\\n", ("model", "type"))
    3
    """
    section: tuple[str, ...] = ()
    counts: Counter[tuple[str, ...]] = Counter()
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$", line)
        assigned = None if header else re.match(r"\s*([\w\-.\"' ]+?)\s*=", line)
        if header:
            full = section = _parts(header[2])
            if header[1] == "[[":  # one of several tables: its number is part of the key
                full = section = (*section, str(counts[section]))
                counts[section[:-1]] += 1
        elif assigned:
            full = (*section, *_parts(assigned[1]))
        else:
            continue
        if full == key[: len(full)] and len(full) > best[0]:
            best = (len(full), number)
    return best[1]


def _parts(name: str) -> tuple[str, ...]:
    return tuple(re.sub(r"[\"' ]", "", name).split("."))


def _problem(detail: dict[str, Any]) -> Problem:
    """A complaint of pydantic in our words."""
    key = tuple(str(part) for part in detail["loc"])
    kind, value = str(detail["type"]), detail.get("input")
    if kind == "extra_forbidden":
        known = list(SECTIONS) if len(key) == 1 else _known_keys(key)
        close = difflib.get_close_matches(key[-1], known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        what = "no such section" if len(key) == 1 else f"[{key[0]}] has no key {key[-1]}"
        return Problem(key, f"{what}{meant}", ", ".join(known))
    allowed = allowed_values(key)
    close = difflib.get_close_matches(str(value), allowed.split(", "), n=1) if isinstance(value, str) else []
    meant = f"; did you mean {close[0]!r}?" if close else ""
    if len(key) == 1:
        return Problem(key, "this must be a section", f"[{key[0]}]")
    return Problem(key, f"[{key[0]}] {key[1]} = {value!r} is not valid{meant}", allowed)


def _known_keys(key: tuple[str, ...]) -> list[str]:
    from twinnet.restore.config.fit_section import FitStageSection
    from twinnet.restore.config.sections import CascadeStage

    inner = {("model", "cascade"): CascadeStage, ("fit", "stages"): FitStageSection}
    model = inner.get((key[0], key[1]), SECTIONS[key[0]])
    return list(model.model_fields)


def _line(where: str, text: str, problem: Problem) -> str:
    line = line_of(text, problem.key)
    place = where if line is None else f"{where}:{line}"
    what = problem.what
    if not what.startswith("[") and len(problem.key) > 1:
        what = f"[{problem.key[0]}] {problem.key[1]}: {what}"
    elif len(problem.key) == 1:
        what = f"[{problem.key[0]}]: {what}"
    return f"{place}: {what}" + (f"\n  allowed: {problem.allowed}" if problem.allowed else "")
