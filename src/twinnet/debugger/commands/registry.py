"""Register functions as commands of the console."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twinnet.debugger.answer import Answer
from twinnet.debugger.stopped import Stopped

__all__ = ["COMMANDS", "Command", "Spec", "command"]


@dataclass(frozen=True)
class Spec:
    """A command, not yet bound to a `Stopped`. `changes` marks commands refused in read-only mode."""

    name: str
    function: Callable[..., Answer]
    changes: bool

    @property
    def usage(self) -> str:
        """The signature, `name(arguments)`."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        words = []
        for p in parameters:
            star = "*" if p.kind is p.VAR_POSITIONAL else ""
            default = "" if p.default is p.empty else f"={p.default!r}"
            words.append(f"{star}{p.name}{default}")
        return f"{self.name}({', '.join(words)})"

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def bare(self) -> bool:
        """Whether it can be called by its name alone."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        return all(p.default is not p.empty or p.kind is p.VAR_POSITIONAL for p in parameters)


_ORDER = ("worst", "sites", "cmp", "show", "where", "born", "cause", "at", "plane")
_ORDER += ("patch", "swap", "repair", "rerun", "reset", "save", "png", "repro")

COMMANDS: dict[str, Spec] = {}
"""All commands by name, in the order of help."""


def command(*, changes: bool = False) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Register a function that takes a `Stopped` and the command's arguments."""

    def add(function: Callable[..., Answer]) -> Callable[..., Answer]:
        name = function.__name__
        COMMANDS[name] = Spec(name, function, changes)
        ordered = sorted(COMMANDS.items(), key=lambda item: _ORDER.index(item[0]))
        COMMANDS.clear()
        COMMANDS.update(ordered)
        return function

    return add


class Command:
    """A command at the prompt; its name alone runs it if it needs no arguments."""

    def __init__(self, spec: Spec, stopped: Stopped) -> None:
        self.spec = spec
        self._stopped = stopped
        self.__doc__ = inspect.getdoc(spec.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        return self.spec.function(self._stopped, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.spec.usage}: {self.spec.summary}"
