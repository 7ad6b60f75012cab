"""`twinnet lut`: train, make, look at, compare, compress and run lookup-table networks. One file per group of verbs."""

from __future__ import annotations

import typer

from twinnet.cli._verbs import Verbs
from twinnet.cli.lut import experiments, fit, tables

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    help="Lookup-table networks: train, make, inspect, compare and run them.",
    no_args_is_help=True,
)
for _group in (experiments, fit, tables):
    for _name, _verb in _group.VERBS.items():
        app.command(_name)(_verb)
