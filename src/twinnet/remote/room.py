"""The programs of one session on a board, and their files."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twinnet.children import start_child, wait_child
from twinnet.errors import EngineError
from twinnet.programs.place import Answering, Room, Script
from twinnet.programs.start import Finished, Task, ending, failed_program, last_words, too_slow
from twinnet.programs.worker import Died, Worker
from twinnet.remote.board import Board
from twinnet.scratch import new_scratch

__all__ = ["BoardRoom"]

_ENDED = re.compile(r"\n?twinnet-ended (\d{1,3})\n?")


class BoardRoom(Room):
    """A folder here, and its counterpart in the folder of the run on the board."""

    def __init__(self, board: Board, purpose: str) -> None:
        board.enter()
        self.board = board
        self.folder = new_scratch(purpose)
        self.python = board.address.python
        self._name = f"room-{board.key()}"
        self._workers: list[_BoardWorker] = []
        self._open = True

    def give(self, file: Path) -> str:
        return f"{self.board.home.folder}/store/{self.board.give([file])[0]}"

    def _inside(self, path: Path) -> str:
        return "/".join((self._name, *path.relative_to(self.folder).parts))

    def there(self, file: Path) -> str:
        return f"{self.board.home.folder}/runs/{self.board.run}/{self._inside(file)}"

    def push(self, folder: Path) -> None:
        inner = sorted(folder.rglob("*"))
        folders = [self._inside(p) for p in (folder, *inner) if p.is_dir()]
        self.board.place_files(folders, {self._inside(p): p for p in inner if p.is_file()})

    def pull(self, path: Path) -> None:
        self.board.fetch(self._inside(path), path)

    # -- programs --------------------------------------------------------------------------------------------------

    def _script(self, arguments: Sequence[str], environment: Mapping[str, str]) -> bytes:
        """A script that becomes the program; the words of users are in it, quoted."""
        # Programs of the interpreter in use first, as here.
        home = re.sub(r"/?[^/]*$", "", self.python)
        lines = []
        if home:
            lines.append(f"PATH={shlex.quote(home)}:$PATH export PATH")
        for key, value in environment.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                raise EngineError(f"{key!r} is not a valid name of an environment variable", stage="run")
            lines.append(f"{key}={shlex.quote(value)} export {key}")
        lines.append(" ".join(["exec", *(shlex.quote(a) for a in arguments)]))
        return "\n".join([*lines, ""]).encode()

    def start(
        self,
        arguments: Sequence[str],
        task: Task,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        script = self._script(arguments, environment or {})
        place = self._inside(folder or self.folder)
        return self.board.connection.retried(lambda: self._start(script, place, task))

    def _start(self, script: bytes, place: str, task: Task) -> Finished:
        key = self.board.key()
        self.board.check()
        line = self.board.connection.command(self.board.words("start", self.board.run, key, place))
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(script)
            given.seek(0)
            child = start_child(line, stdin=given, stdout=out, stderr=err)
            try:
                wait_child(child, task.limit)
            except subprocess.TimeoutExpired:
                self.board.call("stop", self.board.run, key)
                raise too_slow(task) from None
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read(1 << 26).decode(errors="replace"))
        code, log = _outcome(texts[1])
        if code is None:
            raise self.board.connection.lost(task.stage, log)
        self.board.check()
        finished = Finished(texts[0], log)
        if code == 0:
            return finished
        absent = self.board.name if code == 127 and "not found" in log else ""
        raise failed_program(task, code, finished, absent_from=absent)

    def worker(self, script: Script, python: Path | None = None) -> Answering:
        self.board.versions(script.packages)
        # The folder of a script comes first where modules are searched; here that is the store, which has none.
        words = (self._inside(self.folder), self.python, self.board.give([script.written(self.folder)])[0])
        made = _BoardWorker(self.board, script.name, words)
        self._workers.append(made)
        return made

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        for worker in self._workers:
            worker.close()
        try:
            if not self.board.connection.gone:
                self.board.call("clear", self.board.run, self._name)
        except EngineError:
            pass  # out of reach: the next run clears up
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.board.leave()


def _outcome(log: str) -> tuple[int | None, str]:
    """The exit code of a program on the board (None: it is not known) and its log; a signal is negative, as here."""
    found = list(_ENDED.finditer(log))
    if not found:
        return None, log
    code = int(found[-1][1])
    return (128 - code if 128 < code < 160 else code), _ENDED.sub("", log)


class _BoardWorker:
    """A worker on a board. If the connection breaks it is started again, and loads what was loaded."""

    def __init__(self, board: Board, name: str, words: Sequence[str]) -> None:
        self._board, self._name, self._words = board, name, words
        self._worker: Worker | None = None
        self._key = ""
        self._loaded: dict[int, tuple[Mapping[str, Any], str, float | None]] = {}
        self._closed = False

    @property
    def alive(self) -> bool:
        return not self._closed

    def ask(self, request: Mapping[str, Any], stage: str, limit: float | None = None) -> dict[str, Any]:
        if self._closed:
            raise EngineError(f"{self._name} could not {stage}: it was closed", stage=stage)
        self._board.check()
        answer = self._board.connection.retried(lambda: self._asked(request, stage, limit))
        number = request.get("session")
        if request.get("do") == "load" and isinstance(number, int):
            self._loaded[number] = request, stage, limit
        elif request.get("do") == "drop" and isinstance(number, int):
            self._loaded.pop(number, None)
        self._board.check()
        return answer

    def _asked(self, request: Mapping[str, Any], stage: str, limit: float | None) -> dict[str, Any]:
        try:
            if self._worker is None:
                self._start()
                for earlier in self._loaded.values():
                    self._answer(*earlier)
            return self._answer(request, stage, limit)
        except Died as error:
            self._worker = None
            code, log = _outcome(error.log)
            if code is None:
                raise self._board.connection.lost(stage, error.log) from None
            said = last_words(log).splitlines()
            words = "; ".join(filter(None, (ending(code), said[-1][:300] if said else "")))
            raise EngineError(
                f"{self._name} could not {stage}: {words}",
                stage=stage,
                log=last_words(log) or words,
                accident="killed" if code < 0 else "",
            ) from None

    def _answer(self, request: Mapping[str, Any], stage: str, limit: float | None) -> dict[str, Any]:
        assert self._worker is not None
        try:
            return self._worker.ask(request, stage, limit)
        except Died:
            raise
        except EngineError:  # it took too long, or the request was wrong
            if not self._worker.alive:
                self._worker = None
                self._board.call("stop", self._board.run, self._key)
            raise

    def _start(self) -> None:
        self._key = self._board.key()
        words = self._board.words("work", self._board.run, self._key, *self._words)
        self._worker = Worker(self._board.connection.command(words), f"{self._name} on {self._board.name}")

    def close(self) -> None:
        self._closed = True
        if self._worker is not None:
            self._worker.close()
            self._worker = None
