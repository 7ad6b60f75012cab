"""Failures that are one problem: grouped by what is left of their message without names and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from twinnet.suite.outcome import Outcome

__all__ = ["Group", "grouped", "normalised"]

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|%[\w.]+|<[^>]*>")
_PATH = re.compile(r"(?:[\w.-]*/)+[\w.-]+")
_HEX = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,}\b")
# Digits of a word belong to it, as in float32 and conv2d; those behind an underscore count layers.
_NUMBER = re.compile(
    r"(?<![A-Za-z\d])[-+]?\d(?:[\d_]|[ \u00a0\u202f](?=\d))*(?:[.,]\d+)*(?:e[-+]?\d+)?", re.I
)


@dataclass(frozen=True, slots=True)
class Group:
    """Outcomes with the same kind, engine and normalised message."""

    kind: str
    engine: str
    message: str
    outcomes: tuple[Outcome, ...]


def normalised(message: str) -> str:
    """A message without what differs from case to case.

    >>> normalised("could not compile: m.mlir:12:3: error: op 'onnx.GRU' at /tmp/a/b.onnx")
    'could not compile: m.mlir:N:N: error: op * at PATH'
    >>> normalised("output of conv_14 differs by 8.3e-3, which is 9 000 x what float32 rounding can explain")
    'output of conv_N differs by N, which is N x what float32 rounding can explain'
    """
    text = " ".join(message.split())
    for pattern, word in ((_QUOTED, "*"), (_PATH, "PATH"), (_HEX, "HEX"), (_NUMBER, "N")):
        text = pattern.sub(word, text)
    return text[:300]


def grouped(outcomes: Iterable[Outcome]) -> list[Group]:
    """Failures and errors in groups, the largest first."""
    found: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.verdict in ("FAIL", "ERROR"):
            key = (outcome.kind, outcome.case.engine, normalised(outcome.message))
            found.setdefault(key, []).append(outcome)
    groups = [Group(*key, tuple(members)) for key, members in found.items()]
    return sorted(groups, key=lambda g: (-len(g.outcomes), g.kind, g.message))
