"""The live debugger: network and twin stopped at the same place, over HTTP.

`set_trace(**names)` stops a program at the line that calls it; `serve(names)` serves the given names without a frame;
`twinnet debug` runs both sides first. See docs/live-debugger.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.importing import names_from

if TYPE_CHECKING:
    from twinnet.debugger.entry import serve, set_trace
    from twinnet.debugger.settings import Settings

__all__ = ["Settings", "serve", "set_trace"]

_HOMES = {"Settings": "settings", "serve": "entry", "set_trace": "entry"}


# Names load on first use: running tables needs no torch, and `import twinnet` stays light.
__getattr__ = names_from(__name__, _HOMES)
