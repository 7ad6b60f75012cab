"""The options of a check."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args

from twinnet.errors import UsageError
from twinnet.progress import Report, shown, silent
from twinnet.time_limit import TimeLimits

if TYPE_CHECKING:
    from twinnet.judge.tolerance import Tolerance, Tolerances

__all__ = [
    "Advise",
    "CheckKeywords",
    "CompareKeywords",
    "Keep",
    "LadderKeywords",
    "Level",
    "Limits",
    "Options",
    "RecordKeywords",
    "RunKeywords",
    "StagesKeywords",
    "options_of",
    "spelt",
]

Function = TypeVar("Function", bound=Callable[..., Any])

Level = Literal["outputs", "intermediates"]
Keep = Literal["worst", "all", "none"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a check.

    Args:
        threads: Threads for both engines; None leaves their default.
        memory: Bytes for the tensors of one run; the rest goes to disk.
        time_limit: Seconds after which a step of an engine is stopped, or seconds by step, as in
            `{"each": 60, "compile": 600}`. Steps are export, import, compile, load, run and compare. The last is
            twinnet's own work, which has a limit only if one is stated for it.
    """

    threads: int | None = None
    memory: int | None = None
    time_limit: float | Mapping[str, float] | TimeLimits | None = None

    def __post_init__(self) -> None:
        TimeLimits.of(self.time_limit)  # refused here if it is wrong


@dataclass(frozen=True, slots=True)
class Advise:
    """Settings for the advice on which segments to keep in float.

    Args:
        target: Target SNR of the outputs in dB; None stops when more segments gain little.
        out: File to write the improved twin to.
    """

    target: float | None = None
    out: str | None = None


@dataclass(frozen=True)
class Options:
    """The keywords of `twinnet.check`, with their defaults; see there for their meaning."""

    reference: str | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    preprocess: Any = None
    samples: int | None = None
    seed: int = 0
    level: Level = "intermediates"
    watch: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    names: Mapping[str, str] | None = None
    names_out: str | Path | None = None
    tolerance: Tolerance | Tolerances | str | Path | None = None
    metric: Any = None
    baseline: str | Path | None = None
    keep: Keep = "worst"
    limits: Limits = Limits()
    advise: Advise | None = None
    debug_ir: str | Path | None = None
    profile: bool = False
    on: str | None = None
    progress: Report = silent

    def __post_init__(self) -> None:
        for name, kind in (("level", Level), ("keep", Keep)):
            if (given := getattr(self, name)) not in get_args(kind):
                raise UsageError(
                    f"unknown value {given!r} for {name}", hint=f"one of {', '.join(get_args(kind))}"
                )

    @classmethod
    def of(cls, kind: type[Keywords], given: Keywords, progress: Report = silent) -> Options:
        """The options of a call that takes the keywords `kind`.

        >>> Options.of(CheckKeywords, {"seed": 3}).seed
        3
        """
        known = kind.__annotations__
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                meant = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"unexpected keyword argument {name!r}{meant}")
        values: dict[str, Any] = {**given, "progress": progress}
        for name in {"watch", "skip"} & values.keys():
            values[name] = tuple(values[name])
        values["limits"] = values.get("limits") or Limits()
        return cls(**values)


class RunKeywords(TypedDict, total=False):
    """Keywords of every verb that runs a network: `twinnet.check` explains them, `Options` has their defaults."""

    reference: str | None
    shapes: Mapping[str, tuple[int, ...]] | None
    preprocess: Any
    samples: int | None
    seed: int
    level: Level
    limits: Limits | None
    progress: Report | None


class RecordKeywords(RunKeywords, total=False):
    """Keywords of `twinnet.record`."""

    on: str | None


class LadderKeywords(RunKeywords, total=False):
    """Keywords of a check that `twinnet.ladder` takes."""

    tolerance: Tolerance | Tolerances | str | Path | None


class StagesKeywords(LadderKeywords, total=False):
    """Keywords of a check that `twinnet.stages` takes."""

    metric: Any
    keep: Keep
    debug_ir: str | Path | None


class CompareKeywords(TypedDict, total=False):
    """Keywords of a check that `twinnet.compare` takes."""

    names: Mapping[str, str] | str | Path | None
    names_out: str | Path | None
    tolerance: Tolerance | Tolerances | str | Path | None
    baseline: str | Path | None
    keep: Keep
    progress: Report | None


class CheckKeywords(StagesKeywords, total=False):
    """Keywords of `twinnet.check`."""

    watch: Sequence[str]
    skip: Sequence[str]
    names: Mapping[str, str] | None
    names_out: str | Path | None
    baseline: str | Path | None
    advise: Advise | None
    profile: bool
    on: str | None


Keywords = RunKeywords | CompareKeywords


@contextmanager
def options_of(kind: type[Keywords], given: Keywords) -> Iterator[Options]:
    """The options of a call, whose progress is shown in the block as the caller wants it."""
    with shown(given.get("progress")) as report:
        yield Options.of(kind, given, report)


def spelt(kind: type[Keywords]) -> Callable[[Function], Function]:
    """Spell the keywords `kind` in the signature of a function that takes them as `**keywords: Unpack[kind]`.

    Type checkers and editors read them from the annotation; `help`, notebooks and consoles read the signature.

    >>> @spelt(LadderKeywords)
    ... def climb(network: Any, **keywords: Unpack[LadderKeywords]) -> None: ...
    >>> list(inspect.signature(climb).parameters)[:4]
    ['network', 'reference', 'shapes', 'preprocess']
    """
    # Without a report, a notebook shows the progress by itself.
    defaults = {**{field.name: field.default for field in fields(Options)}, "progress": None}

    def show(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        hints = {name: getattr(hint, "__forward_arg__", hint) for name, hint in kind.__annotations__.items()}
        spelt = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hint)
            for name, hint in hints.items()
        ]
        parameters = sorted([*own, *spelt], key=lambda p: p.kind)
        function.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return show
