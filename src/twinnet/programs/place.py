"""Where the programs of an engine run: on this machine, or at another place that looks the same to the engine."""

from __future__ import annotations

import platform
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from twinnet.errors import EngineError
from twinnet.programs.archive import write_archive
from twinnet.programs.start import Finished, Task, start_program
from twinnet.programs.worker import Worker
from twinnet.scratch import new_scratch

__all__ = ["HERE", "Answering", "Place", "Room", "Script"]


@dataclass(frozen=True, slots=True)
class Script:
    """A Python file that answers one JSON request per line, in the loop of `lines.py`.

    A request `load` makes a session under the number that the request states, and `drop` frees it. `packages` are the
    distributions it needs, `parts` the files of twinnet that it imports beside the loop; `flags` are for the
    interpreter of this machine.
    """

    file: Path
    name: str
    packages: tuple[str, ...]
    flags: tuple[str, ...] = ("-P",)
    parts: tuple[str, ...] = ()

    def written(self, folder: Path) -> Path:
        """The program in one file, in this folder: it runs where twinnet is not installed."""
        return write_archive(folder / f"{self.file.stem}.pyz", self.file, self.parts)


class Answering(Protocol):
    """A worker, wherever it runs."""

    @property
    def alive(self) -> bool: ...

    def ask(self, request: Mapping[str, Any], stage: str, limit: float | None = None) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Room(ABC):
    """The programs of one session, and the files they share with this process.

    `folder` is on this machine. A program is told the name that `give` or `there` returns for a file. `python` is the
    interpreter at this place.
    """

    folder: Path
    python: str

    @abstractmethod
    def give(self, file: Path) -> str:
        """A file that programs only read, under the name by which they find it."""

    @abstractmethod
    def there(self, file: Path) -> str:
        """The name of a file or folder below `folder`, as programs know it."""

    @abstractmethod
    def push(self, folder: Path) -> None:
        """Let programs see what is in a folder below `folder`."""

    @abstractmethod
    def pull(self, path: Path) -> None:
        """See a file, or what is in a folder, below `folder` as programs left it."""

    @abstractmethod
    def start(
        self,
        arguments: Sequence[str],
        task: Task,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run a program to its end, in a folder below `folder`."""

    @abstractmethod
    def worker(self, script: Script, python: Path | None = None) -> Answering:
        """Start a script that stays until it is closed, by default under `python`."""

    @abstractmethod
    def close(self) -> None:
        """End what still runs, and remove the folder."""


class Place(ABC):
    """Where programs run. `name` is what `--on` takes, empty for this machine."""

    name: str = ""

    @property
    @abstractmethod
    def machine(self) -> str:
        """The kind of its processor, as `uname -m` says."""

    @abstractmethod
    def room(self, purpose: str) -> Room:
        """A new room."""

    @abstractmethod
    def versions(self, packages: Sequence[str]) -> Mapping[str, str]:
        """The versions of packages; an error says what is missing, and how to install it."""

    def kept(self) -> AbstractContextManager[object]:
        """In this block the place is held for this process, between two rooms as well."""
        return nullcontext()


class _Here(Place):
    @property
    def machine(self) -> str:
        return platform.machine()

    def room(self, purpose: str) -> Room:
        return _RoomHere(purpose)

    def versions(self, packages: Sequence[str]) -> Mapping[str, str]:
        try:
            return {name: metadata.version(name) for name in packages}
        except metadata.PackageNotFoundError as error:
            raise EngineError(f"{error.name} is not installed", stage="start") from None


class _RoomHere(Room):
    """This machine: programs see the files as they are."""

    def __init__(self, purpose: str) -> None:
        self.folder = new_scratch(purpose)
        self.python = sys.executable

    def give(self, file: Path) -> str:
        return str(file.absolute())

    def there(self, file: Path) -> str:
        return str(file)

    def push(self, folder: Path) -> None:
        pass

    def pull(self, path: Path) -> None:
        pass

    def start(
        self,
        arguments: Sequence[str],
        task: Task,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        return start_program(arguments, task, folder=folder, environment=environment)

    def worker(self, script: Script, python: Path | None = None) -> Answering:
        program = script.written(self.folder)
        return Worker([str(python or self.python), *script.flags, str(program)], script.name)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


HERE: Place = _Here()
"""This machine."""
