"""`twinnet inspect`: what is in a network."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._screen import say

__all__ = ["command"]


def command(
    network: o.Network,
    ops: Annotated[
        bool,
        typer.Option(
            "--ops", help="Count the operators of each kind; for TFLite files, also those that XNNPACK runs."
        ),
    ] = False,
    sites: Annotated[
        bool,
        typer.Option(
            "--sites", help="List all tensors, by the names that --watch, --skip, --names and rules take."
        ),
    ] = False,
    shape: o.Shape = None,
    trust: o.Trust = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the stages, shapes, parameters and operators of a module or file."""
    from twinnet.overview import inspect, render

    found = inspect(network, shapes=o.shapes(shape), trust=trust, ops=ops, sites=sites)
    say(found.to_json() if as_json else render(found, ops=ops))
