"""Answer a line of text: pdb's short commands, ours, or Python in the stopped frame."""

from __future__ import annotations

import ast
import contextlib
import io
import pprint
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands import COMMANDS, Command
from twinnet.debugger.frames import Frames
from twinnet.debugger.names import names_of
from twinnet.debugger.stopped import Stopped
from twinnet.errors import TwinnetError, UsageError

__all__ = ["Console", "Late", "Quit", "Reply"]

_LONGEST = 200_000
_PRINT = re.compile(r"^(p|pp)\s+(?![=+\-*/%&|^<>]=|=[^=])(.+)$", re.S)
_MOVE = re.compile(r"^(u|up|d|down)(?:\s+(\d+))?$")
_LIST = re.compile(r"^(l|list)(?:\s+(\d+)(?:\s*,\s*(\d+))?)?$")
_QUIT = ("quit", "q", "exit", "c", "cont", "continue", "quit()", "exit()")
_HERE = "<debugger>"


class Quit(Exception):
    """Raised by `quit`: the program continues."""


class Late(BaseException):
    """Raised inside a command that exceeds its time limit; a BaseException, so that the command cannot catch it."""


@dataclass(frozen=True)
class Reply:
    """An answer, or the text of an error if not `ok`."""

    ok: bool
    answer: Answer


class Console:
    """Answers lines of text in the stopped thread; only `quit` ends it."""

    def __init__(
        self,
        stopped: Stopped,
        frame: FrameType | None = None,
        given: Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.stopped = stopped
        self.frames = Frames(frame)
        self.read_only = read_only
        self._given = dict(given or {})

    def ask(self, text: str) -> Reply:
        """Answer one request. Raises only `Quit` and `Late`."""
        try:
            return Reply(True, self._answer(text.strip()))
        except (Quit, Late):
            raise
        except TwinnetError as error:
            return Reply(False, Answer(str(error)))
        except (
            BaseException
        ) as error:  # SystemExit and KeyboardInterrupt included: the debugger never dies of one
            return Reply(False, Answer(_trace_text(error)))

    def _answer(self, text: str) -> Answer:
        if text in _QUIT:
            raise Quit
        if not text or text in ("help", "h", "?"):
            return self._help()
        if text in ("w", "bt", "where"):
            return Answer(self.frames.stack())
        if move := _MOVE.match(text):
            steps = int(move[2] or 1)
            return Answer(self.frames.move(steps if move[1] in ("u", "up") else -steps))
        if listing := _LIST.match(text):
            first, last = (int(n) if n else None for n in listing.groups()[1:])
            return Answer(self.frames.listing(first, last))
        if about := re.match(r"^(?:help|h)\s+(\w+)$|^help\(\s*['\"]?(\w*)['\"]?\s*\)$", text):
            return self._help(about[1] or about[2])
        if self.read_only:
            return self._literal(text)
        shown = _PRINT.match(text)
        if shown and not (shown[1] in self.frames.variables and _is_python(text)):
            value = self._run(shown[2])[0]
            return _answer_of(value, pprint.pformat if shown[1] == "pp" else repr)
        if text.startswith("!"):
            return self._shown(text[1:].strip(), own=False)
        return self._shown(text)

    # -- Python --------------------------------------------------------------------------------------------------

    def _shown(self, text: str, *, own: bool = True) -> Answer:
        value, printed = self._run(text, own=own)
        if value is None:
            return Answer(printed.rstrip("\n"))
        answer = _answer_of(value, repr)
        return Answer(printed + answer.text, answer.data, answer.picture) if printed else answer

    def _run(self, text: str, *, own: bool = True) -> tuple[Any, str]:
        """Evaluate text in the frame; returns the value of its last expression and its printed output."""
        tree = ast.parse(text, _HERE)
        last = tree.body[-1] if tree.body else None
        names = names_of(self.stopped, self._given) if own else {}
        # One dictionary for everything, so that functions and comprehensions see the frame's variables too.
        scope: dict[str, Any] = {**self.frames.globals, **self.frames.variables, **names}
        before = dict(scope)
        with _captured() as printed:
            try:
                if isinstance(last, ast.Expr):
                    body = ast.Module(tree.body[:-1], [])
                    exec(compile(body, _HERE, "exec"), scope)
                    value = eval(compile(ast.Expression(last.value), _HERE, "eval"), scope)
                else:
                    exec(compile(tree, _HERE, "exec"), scope)
                    value = None
                if (
                    isinstance(value, Command)
                    and value.spec.bare
                    and isinstance(getattr(last, "value", 0), ast.Name)
                ):
                    value = value()
            finally:
                # Assignments made before an error are kept, as if typed line by line.
                self._kept(before, scope)
        return value, printed.getvalue()

    def _kept(self, before: Mapping[str, Any], scope: Mapping[str, Any]) -> None:
        changed = {
            name: value
            for name, value in scope.items()
            if name != "__builtins__" and (name not in before or before[name] is not value)
        }
        for name in set(changed) & set(self._given):
            self._given[name] = changed[name]
        if changed:
            self.frames.assign(changed)

    # -- reading only --------------------------------------------------------------------------------------------

    def _literal(self, text: str) -> Answer:
        """Run a command with literal arguments; nothing is evaluated."""
        refused = UsageError(
            f"read-only: {text.splitlines()[0][:60]!r} is not allowed",
            hint=f"allowed: {', '.join(n for n, s in COMMANDS.items() if not s.changes)}, inputs, help, w, l, u, d",
        )
        try:
            call = ast.parse(text, _HERE, "eval").body
        except SyntaxError:
            raise refused from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        if isinstance(call, ast.Call):
            if not isinstance(call.func, ast.Name) or any(k.arg is None for k in call.keywords):
                raise refused
            try:
                args = [ast.literal_eval(a) for a in call.args]
                kwargs = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                raise refused from None
            call = call.func
        if not isinstance(call, ast.Name):
            raise refused
        from twinnet.debugger.commands.lineage import inputs_of

        if call.id == "inputs" and (args or kwargs):
            return inputs_of(self.stopped, *args, **kwargs)
        spec = COMMANDS.get(call.id)
        if spec is None or spec.changes:
            raise refused
        return spec.function(self.stopped, *args, **kwargs)

    # -- help ----------------------------------------------------------------------------------------------------

    def _help(self, name: str = "") -> Answer:
        if name:
            spec = COMMANDS.get(name)
            if spec is None:
                raise UsageError(
                    f"unknown command {name!r}", hint=f"commands: {', '.join(COMMANDS)}, inputs, quit"
                )
            return Answer(f"{spec.usage}\n{spec.function.__doc__ or ''}".rstrip())
        lines = []
        for spec in COMMANDS.values():
            if not (self.read_only and spec.changes):
                lines.append(f"{spec.usage}\n    {spec.summary}")
        lines.append(
            "inputs(site)\n    The sites from which a site is computed; inputs['x'] is an input itself."
        )
        lines.append("link\n    A new link to the page, which opens once.")
        lines.append("quit\n    Let the program continue.")
        if self.read_only:
            lines.append("w, u, d, l: the stack, up and down in it, source. Read-only: nothing is evaluated.")
        else:
            lines.append("p X, pp X, w, u, d, l as in pdb. Anything else is Python in the stopped frame;")
            lines.append(
                "!X leaves the names above aside. Beside the program's variables there are network, twin,"
            )
            more = () if self.stopped.meaning is None else tuple(self.stopped.meaning.aliases)
            further = f", {', '.join(more[:-1])} and {more[-1]}" if more else ""
            lines.append(f"inputs, trace and twin_trace{further}.")
        return Answer("\n".join(lines), {"commands": list(COMMANDS)})


def _is_python(text: str) -> bool:
    """Whether the text parses as Python, such as `p + 1` with a variable p."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _answer_of(value: Any, form: Callable[[Any], str]) -> Answer:
    if isinstance(value, Answer):
        return value
    text = form(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n... and {len(text) - _LONGEST} characters more"
    simple = value is None or isinstance(value, bool | int | float | str)
    return Answer(text, value if simple else None)


def _trace_text(error: BaseException) -> str:
    """The error as Python shows it, without the frames of the debugger itself."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, f in enumerate(frames) if f.filename == _HERE), len(frames))
    shown = frames[first:]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)] if shown else []
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


class _Split(io.TextIOBase):
    """Standard output, except that one thread writes elsewhere."""

    def __init__(self, others: Any, thread: int, mine: io.StringIO) -> None:
        self._others, self._thread, self._mine = others, thread, mine

    def write(self, text: str) -> int:
        mine = threading.get_ident() == self._thread
        return (self._mine if mine else self._others).write(text)

    def flush(self) -> None:
        self._others.flush()


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    """Capture what this thread prints; other threads still print to standard output."""
    mine = io.StringIO()
    with contextlib.redirect_stdout(_Split(sys.stdout, threading.get_ident(), mine)):  # type: ignore[type-var]
        yield mine
