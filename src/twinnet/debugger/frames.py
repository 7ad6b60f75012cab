"""The stopped frames: source position and variables, to be read and written."""

from __future__ import annotations

import ctypes
import linecache
from collections.abc import Mapping
from types import FrameType
from typing import Any

from twinnet.errors import UsageError

__all__ = ["Frames"]

_AROUND = 5


class Frames:
    """The stack at the stop, innermost frame first; one of them is the current frame."""

    def __init__(self, frame: FrameType | None) -> None:
        self._stack: list[FrameType] = []
        while frame is not None:
            self._stack.append(frame)
            frame = frame.f_back
        self._at = 0
        self._locals: dict[int, dict[str, Any]] = {}
        self._own: dict[str, Any] = {}

    @property
    def frame(self) -> FrameType | None:
        """The current frame; None if no program is stopped."""
        return self._stack[self._at] if self._stack else None

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of the current frame, in one dictionary that persists while the program is stopped."""
        frame = self.frame
        if frame is None:
            return self._own
        # Only once: reading a frame's locals again would overwrite assignments made at the prompt.
        if self._at not in self._locals:
            self._locals[self._at] = frame.f_locals
        return self._locals[self._at]

    @property
    def globals(self) -> dict[str, Any]:
        """The globals of the current frame."""
        frame = self.frame
        return {} if frame is None else frame.f_globals

    def assign(self, names: Mapping[str, Any]) -> None:
        """Set variables of the current frame; the program continues with them."""
        variables, frame = self.variables, self.frame
        variables.update(names)
        if frame is not None and variables is not frame.f_globals:
            to_fast = getattr(ctypes.pythonapi, "PyFrame_LocalsToFast", None)
            if to_fast is not None:  # from Python 3.13 on, f_locals writes through by itself
                to_fast(ctypes.py_object(frame), ctypes.c_int(0))

    # -- moving and showing --------------------------------------------------------------------------------------

    def move(self, steps: int) -> str:
        """Move towards the caller (positive) or back; returns the new position as text."""
        if not self._stack:
            raise UsageError("no program is stopped here: there are no frames")
        self._at = min(max(self._at + steps, 0), len(self._stack) - 1)
        return self._words(self._at)

    def stack(self) -> str:
        """All frames, outermost first, with the current one marked."""
        if not self._stack:
            return "no program is stopped here: there are no frames"
        return "\n".join(self._words(i) for i in range(len(self._stack) - 1, -1, -1))

    def _words(self, index: int) -> str:
        frame = self._stack[index]
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
        mark = "> " if index == self._at else "  "
        return f"{mark}{code.co_filename}({frame.f_lineno}){code.co_name}()" + (
            f"\n-> {line}" if line else ""
        )

    def listing(self, first: int | None = None, last: int | None = None) -> str:
        """Source lines around the stop, or the given lines."""
        frame = self.frame
        if frame is None:
            raise UsageError("no program is stopped here: there is no source")
        start = first if first is not None else max(1, frame.f_lineno - _AROUND)
        stop = last if last is not None else start + 2 * _AROUND
        lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        if not lines:
            raise UsageError(f"no source available for {frame.f_code.co_filename}")
        shown = []
        for number in range(start, min(stop, len(lines)) + 1):
            mark = "->" if number == frame.f_lineno else "  "
            shown.append(f"{mark} {number:>5}  {lines[number - 1].rstrip()}")
        return "\n".join(shown) or f"the file has {len(lines)} lines"
