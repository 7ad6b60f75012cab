"""The live debugger: network and twin stopped at the same place, over HTTP.

`set_trace(**names)` stops a program at the line that calls it; `serve(names)` serves the given names without a frame;
`twinnet debug` runs both sides first. See docs/live-debugger.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinnet.debugger.entry import serve, set_trace
    from twinnet.debugger.settings import Settings

__all__ = ["Settings", "serve", "set_trace"]

_HOMES = {"Settings": "settings", "serve": "entry", "set_trace": "entry"}


def __getattr__(name: str) -> Any:
    # A script may import this at its top, so nothing heavy is imported with it.
    if name not in _HOMES:
        raise AttributeError(f"module 'twinnet.debugger' has no attribute {name!r}")
    return getattr(import_module(f"twinnet.debugger.{_HOMES[name]}"), name)
