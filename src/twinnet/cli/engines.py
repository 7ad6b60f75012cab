"""`twinnet engines`: what is installed, what each can do, how to install the rest."""

from __future__ import annotations

import typer

__all__ = ["command"]


def command() -> None:
    """What is installed, what each engine can do, and how to install the rest."""
    from rich.console import Console
    from rich.table import Table

    from twinnet.engines import REGISTRY, find_engine
    from twinnet.errors import MissingExtra

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for title in ("engine", "version", "shows", "parts alone", "options"):
        table.add_column(title, overflow="fold")
    missing: list[str] = []
    for name in REGISTRY:
        engine = find_engine(name)
        try:
            version = engine.version()
        except MissingExtra as error:
            version = "not installed"
            missing.append(f"{name}: {error.hint}")
        able = engine.abilities
        shows = "all tensors" if able.capture else "outputs only"
        options = "; ".join(f"{k}={v}" for k, v in engine.options.items())
        table.add_row(name, version, able.note or shows, able.segment, options or "-")
    Console(highlight=False).print(table)
    for line in missing:
        typer.echo(line)
    typer.echo("\nspec: ENGINE[?key=value&key=value][:FILE]     example: --twin 'onnxruntime?opt=off'")
