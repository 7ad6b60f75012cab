"""What the database takes in, as data: a session and its cases, each text cut to its column and safe to show."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinnet.report.figures import clean

__all__ = [
    "ENDLESS",
    "FileIn",
    "LayerIn",
    "RunIn",
    "SessionIn",
    "bounded",
    "is_bad",
    "key_of",
    "kind_of",
    "tidy",
]

ENDLESS = 1e300
"""Stands for NaN and Inf, which sort and add up badly; shown as such."""


def kind_of(verdict: str, step: str) -> str:
    """FAIL, ERROR with its step, PASS or SKIP.

    >>> kind_of("ERROR", "compile"), kind_of("FAIL", "")
    ('ERROR:compile', 'FAIL')
    """
    return f"ERROR:{step}" if verdict == "ERROR" and step else verdict


def is_bad(verdict: str, expected: str) -> bool:
    """Whether somebody has to look at a run: it failed, and was not expected to."""
    return verdict in ("FAIL", "ERROR") and expected != "yes"


@dataclass(frozen=True, slots=True)
class FileIn:
    """A file of a run folder that is in the store."""

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class LayerIn:
    """One pair of a run."""

    tensor: str
    label: str
    source: str = ""
    status: str = ""
    ratio: float | None = None
    allowed: float | None = None
    relative: float | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class RunIn:
    """One case of a session."""

    name: str
    model: str
    engine: str
    verdict: str
    layer: str = ""
    random: bool = False
    spec: str = ""
    step: str = ""
    message: str = ""
    evidence: str = "strong"
    expected: str = ""
    same_as: str = ""
    seconds: float = 0.0
    ratio: float | None = None
    max_abs: float | None = None
    time: float | None = None
    born: str = ""
    cause: str = ""
    layers: tuple[LayerIn, ...] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[FileIn, ...] = ()

    @property
    def kind(self) -> str:
        """FAIL, ERROR with its step, PASS or SKIP."""
        return kind_of(self.verdict, self.step)

    @property
    def digest(self) -> str:
        """What this case says, in one word: the same for the same content."""
        files = sorted((f.path, f.digest) for f in self.files)
        return key_of(self.name, self.model, self.engine, self.layer, self.verdict, self.message, files)


@dataclass(frozen=True, slots=True)
class SessionIn:
    """One suite, check or profile; `key` is its name everywhere."""

    key: str
    made_by: str
    started: float
    finished: float | None = None
    title: str = ""
    branch: str = ""
    commit: str = ""
    who: str = ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def key_of(*parts: Any) -> str:
    """A digest of plain values.

    >>> key_of("a", 1) == key_of("a", 1) != key_of("a", 2)
    True
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def bounded(value: Any) -> float | None:
    """A number that every database and JSON can hold; None stays None.

    >>> bounded("Infinity"), bounded(2), bounded(None), bounded("x")
    (1e+300, 2.0, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if math.isnan(number):
        return ENDLESS
    return max(-ENDLESS, min(number, ENDLESS))


def tidy(value: Any, most: int = 2000, depth: int = 12) -> Any:
    """Plain data with texts that can be shown and stored: control characters escaped, long ones cut.

    >>> tidy({"a\\x00": ["b" * 5]}, most=3)
    {'a\\\\x00': ['bbb']}
    """
    if depth < 0:
        return None
    if isinstance(value, str):
        return "\n".join(clean(line.expandtabs()) for line in value[:most].split("\n"))
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return bounded(value)
    if isinstance(value, Mapping):
        return {clean(str(k)[:most]): tidy(v, most, depth - 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(v, most, depth - 1) for v in value]
    return clean(str(value)[:most])
