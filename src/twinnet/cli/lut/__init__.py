"""`twinnet lut`: train, make, look at, compare, compress and run lookup-table networks. One file per group of verbs."""

from __future__ import annotations

import typer

from twinnet.cli.lut import experiments, fit, tables

__all__ = ["app"]

app = typer.Typer(
    help="Lookup-table networks: trained, made, looked at, compared and run.", no_args_is_help=True
)
for _group in (experiments, fit, tables):
    for _name, _verb in _group.VERBS.items():
        app.command(_name)(_verb)
