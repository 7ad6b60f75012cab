"""`twinnet env`: an environment dump for bug reports."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli._screen import say

__all__ = ["command"]


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print versions and machine, to paste into an issue."""
    import json

    from twinnet.environment import environment

    found = environment()
    if as_json:
        say(json.dumps(found, indent=1))
        return
    width = max(map(len, found))
    for name, value in found.items():
        say(f"{name:<{width}}  {value}")
