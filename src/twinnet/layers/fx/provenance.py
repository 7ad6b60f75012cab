"""Where an fx node comes from in the user's code: module path, which call of it, and source line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import Node

__all__ = ["Place", "place"]

_FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)')
_CALL = re.compile(r"@(\d+)$")
_TORCH = Path(torch.__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Place:
    """Module path, index of the call of that module, and `file.py:LINE`; empty where nothing is known.

    >>> Place("features.0", 1, "net.py:12").module
    'features.0'
    """

    module: str = ""
    call: int = 0
    source: str = ""


def place(node: Node) -> Place:
    """The innermost module that ran `node`, which call of it this was, and the user's line.

    Metadata of a node is optional (a program made by hand has none), so anything absent stays empty.
    """
    module, call = _module(node.meta.get("nn_module_stack"))
    return Place(module, call, _source(node.meta.get("stack_trace")))


def _module(stack: dict[str, tuple[str, Any]] | None) -> tuple[str, int]:
    if not stack:
        return "", 0
    key, (path, _) = next(reversed(stack.items()))
    again = _CALL.search(key)
    return path, int(again[1]) if again else 0


def _source(trace: str | None) -> str:
    """The innermost frame that is not torch's own: where a Conv2d is called, not a line inside it."""
    for frame in reversed(list(_FRAME.finditer(trace or ""))):
        file = Path(frame["file"])
        if not (file.is_relative_to(_TORCH) or file.resolve().is_relative_to(_TORCH)):
            return f"{_short(file)}:{frame['line']}"
    return ""


def _short(file: Path) -> str:
    here = Path.cwd()
    return file.relative_to(here).as_posix() if file.is_relative_to(here) else "/".join(file.parts[-2:])
