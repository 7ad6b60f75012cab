"""A child that stays: one request per line in, one answer per line out; if it dies, its last words are kept."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from twinnet.children import ended, start_child, stop_child
from twinnet.errors import EngineError
from twinnet.files import parse_json
from twinnet.programs.start import ending, last_words
from twinnet.time_limit import time_up

__all__ = ["Died", "Worker"]

_LONGEST = 1 << 26
"""Bytes of an answer that are read; tensors travel as files."""


class Died(EngineError):
    """A worker that ended before it answered; `log` has its last words."""


class Worker:
    """A program that answers JSON lines. `name` goes into messages.

    >>> import sys
    >>> echo = "import sys\\nfor line in sys.stdin: print(line, end='', flush=True)"
    >>> with Worker([sys.executable, "-c", echo], "echo") as worker:
    ...     worker.ask({"do": "nothing"}, "answer")
    {'do': 'nothing'}
    """

    def __init__(self, arguments: Sequence[str], name: str) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._rest = b""
        self._words = ""
        try:
            self._child = start_child(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
        except OSError as error:
            self._log.close()
            raise EngineError(
                f"{name}: {arguments[0]} cannot be started ({error.strerror or error})",
                stage="start the worker",
            ) from None

    def ask(self, request: Mapping[str, Any], stage: str, limit: float | None = None) -> dict[str, Any]:
        """The answer to a request. An `error` in it, silence beyond `limit` seconds or a crash is an EngineError."""
        pipe = self._child.stdin
        assert pipe is not None
        try:
            pipe.write(json.dumps(request).encode() + b"\n")
            pipe.flush()
        except (BrokenPipeError, ValueError, OSError):
            raise self._died(stage) from None
        line = self._line(stage, limit)
        try:
            answer = parse_json(line)
        except ValueError:
            answer = {"error": f"it answered {line[:200].decode(errors='replace')!r}"}
        if not isinstance(answer, dict):
            answer = {"error": f"it answered {str(answer)[:200]!r}"}
        if "error" in answer:
            answer["error"] = str(answer["error"])
            first = next((t for t in answer["error"].splitlines() if t.strip()), "")
            raise EngineError(
                f"{self.name} could not {stage}: {first[:400]}", stage=stage, log=answer["error"][-4000:]
            )
        return answer

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._child.poll() is None

    def _line(self, stage: str, limit: float | None) -> bytes:
        pipe = self._child.stdout
        assert pipe is not None
        deadline = None if limit is None else time.monotonic() + limit
        with selectors.DefaultSelector() as ready:
            ready.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left = None if deadline is None else deadline - time.monotonic()
                if (left is not None and left <= 0) or not ready.select(left):
                    self.close(stuck=True)
                    what = f"{self.name} could not {stage} within the time limit of {limit:g} s"
                    raise time_up(what, stage)
                more = os.read(pipe.fileno(), 1 << 16)
                if not more:
                    raise self._died(stage)
                self._rest += more
                if len(self._rest) > _LONGEST:
                    self.close(stuck=True)
                    raise EngineError(f"{self.name} could not {stage}: its answer has no end", stage=stage)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _died(self, stage: str) -> Died:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(10)
        code = self._child.poll()
        if not self._log.closed:
            self._log.seek(0)
            self._words = last_words(self._log.read().decode(errors="replace"))
        log = self._words
        how = "it does not answer" if code is None else ending(code)
        self.close()
        said = log.splitlines()[-1][:300] if log else ""
        return Died(
            f"{self.name} could not {stage}: {'; '.join(filter(None, (how, said)))}",
            stage=stage,
            log=log or how,
            accident="killed" if code is None or code < 0 else "",
        )

    def close(self, *, stuck: bool = False) -> None:
        """End the child and the processes it started; at once if it is `stuck`."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._child.wait(0 if stuck else 2)
            ended(self._child)
        except subprocess.TimeoutExpired:
            stop_child(self._child)
        self._log.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        child = getattr(self, "_child", None)
        if child is not None and child.poll() is None:
            self.close()
