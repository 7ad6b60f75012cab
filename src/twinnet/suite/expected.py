"""Expected failures: one line each in a text file, `case-glob | FAIL or ERROR:step | reason | link`.

Empty lines and lines that start with # are kept as they are. The first line that fits a case counts. What depends on
the machine may have several kinds: `FAIL or ERROR:compile`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.files import atomic_write
from twinnet.steps import STEPS
from twinnet.suite.outcome import Outcome

__all__ = ["Expectation", "accept", "compared", "fitting_none", "read_expected"]

_KINDS = ("FAIL", *(f"ERROR:{step}" for step in STEPS))
_HEAD = "# case-glob | FAIL or ERROR:step | reason | link\n"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of the file: the cases that it is for, how they fail, and why."""

    pattern: str
    kind: str
    reason: str = ""
    link: str = ""
    line: int = 0

    def fits(self, name: str) -> bool:
        """Whether a case is meant.

        >>> Expectation("*-iree-*", "FAIL").fits("a_full_model-iree-default")
        True
        """
        return fnmatchcase(name, self.pattern)

    def wants(self, kind: str) -> bool:
        """Whether a case is expected to end like this.

        >>> Expectation("*", "FAIL or ERROR:compile").wants("ERROR:compile")
        True
        """
        return kind in _kinds(self.kind)

    def __str__(self) -> str:
        return " | ".join((self.pattern, self.kind, self.reason, self.link)).rstrip(" |")


def read_expected(path: Path) -> tuple[Expectation, ...]:
    """The expectations of a file; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable file of expected failures: {error}") from None
    return tuple(e for e in (_parsed(line, n, path) for n, line in enumerate(text.splitlines(), 1)) if e)


def _parsed(line: str, number: int, path: Path) -> Expectation | None:
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    parts = [part.strip() for part in line.split("|", 3)]
    if len(parts) < 2 or not set(_kinds(parts[1])) <= set(_KINDS):
        raise UsageError(
            f"{path}:{number}: {line.strip()[:80]!r} is not an expected failure",
            hint=f"case-glob | {' or '.join(_KINDS)} | reason | link",
        )
    pattern, kind, reason, link = (*parts, "", "")[:4]
    return Expectation(pattern, kind, reason, link, number)


def _kinds(text: str) -> list[str]:
    return [word.strip() for word in text.split(" or ")]


def compared(outcome: Outcome, expected: Iterable[Expectation]) -> Outcome:
    """The outcome with what was expected of it. A skipped case says nothing about an expectation."""
    found = next((e for e in expected if e.fits(outcome.name)), None)
    if outcome.verdict == "SKIP":
        return outcome
    if found is None:
        return replace(outcome, expected="" if outcome.verdict == "PASS" else "no")
    told = replace(outcome, wanted=found.kind, reason=found.reason, link=found.link)
    return replace(told, expected="yes" if found.wants(outcome.kind) else "no")


def fitting_none(expected: Iterable[Expectation], outcomes: Iterable[Outcome]) -> list[Expectation]:
    """Lines that fit no case: of a model or engine that is gone, or with a typo."""
    names = [outcome.name for outcome in outcomes]
    return [e for e in expected if not any(map(e.fits, names))]


def accept(path: Path, outcomes: Iterable[Outcome]) -> list[str]:
    """Change the file so that these outcomes are expected; returns what was changed, a line each.

    A new failure gets a line with its message as the reason. A line for exactly one case goes if the case passes, and
    changes if it fails in another way. Patterns for several cases, comments and lines of cases that did not run stay.
    If a pattern is wrong about a case, a line for that case goes before it.
    """
    ran = {o.name: o for o in outcomes if o.verdict != "SKIP"}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else _HEAD.splitlines()
    expected = read_expected(path)
    by_line = {e.line: e for e in expected}
    said: list[str] = []
    kept: list[str] = []
    new: dict[int, list[str]] = {}
    settled: set[str] = set()
    for outcome in ran.values():
        first = next((e for e in expected if e.fits(outcome.name)), None)
        if first is None or first.pattern == outcome.name or first.wants(outcome.kind):
            continue
        if outcome.verdict == "PASS":
            said.append(f"left     {first} (but {outcome.name} passes: edit the pattern)")
        else:
            new.setdefault(first.line, []).append(str(_told(outcome)))
            said.append(f"added    {outcome.name} | {outcome.kind}")
        settled.add(outcome.name)
    for number, line in enumerate(lines, 1):
        one = by_line.get(number)
        outcome = ran.get(one.pattern) if one else None
        kept += new.get(number, [])
        if one is None or outcome is None or one.wants(outcome.kind):
            kept.append(line)
        elif outcome.verdict == "PASS":
            said.append(f"removed  {one.pattern} | {one.kind} (it passes)")
        else:
            kept.append(str(replace(one, kind=outcome.kind, reason=_short(outcome.message))))
            said.append(f"changed  {one.pattern} | {one.kind} to {outcome.kind}")
    for outcome in ran.values():
        if outcome.verdict == "PASS" or outcome.name in settled:
            continue
        if not any(e.fits(outcome.name) for e in expected):
            kept.append(str(_told(outcome)))
            said.append(f"added    {outcome.name} | {outcome.kind}")
    if kept != lines:
        atomic_write(path, ("\n".join(kept) + "\n").encode())
    return said


def _told(outcome: Outcome) -> Expectation:
    return Expectation(outcome.name, outcome.kind, _short(outcome.message))


def _short(message: str) -> str:
    """A message as a reason: one line without the separator, and without the advice after it."""
    return " ".join(message.partition("\n  ")[0].split()).replace("|", "/")[:200]
