"""`twinnet engines`: installed engines, what each can do, how to install the rest, and plug-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.cli._screen import say

if TYPE_CHECKING:
    from twinnet.plugins import Kind

__all__ = ["command"]


def command() -> None:
    """List the engines: what is installed and from where, what each can do, and how to install the rest."""
    from rich.console import Console
    from rich.table import Table

    from twinnet.engines import BUILT_IN, engine_names, find_engine, origin_of
    from twinnet.errors import MissingExtra, UsageError
    from twinnet.plugins import KINDS, ignored, plugins

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for title in ("engine", "version", "from", "shows", "parts alone", "options"):
        table.add_column(title, overflow="fold")
    said: list[str] = []
    for name in engine_names():
        try:
            engine = find_engine(name)
        except UsageError as error:
            said.append(f"warning: {error}")
            continue
        try:
            version = engine.version()
        except MissingExtra as error:
            version = "not installed"
            said.append(f"{name}: {error.hint}")
        able = engine.abilities
        shows = "all tensors" if able.capture else "outputs only"
        options = "; ".join(f"{k}={v}" for k, v in engine.options.items())
        table.add_row(name, version, origin_of(name), able.note or shows, able.segment, options or "-")
    Console(highlight=False).print(table)
    said += [f"warning: {line}" for line in ignored("engine", BUILT_IN)]
    for kind in KINDS[1:]:
        said += _added(kind) if plugins(kind) else []
    for line in said:
        say(line)
    say("\nspec: ENGINE[?key=value&key=value][:FILE]     example: --twin 'onnxruntime?opt=off'")


def _added(kind: Kind) -> list[str]:
    """A line for each plug-in of this kind."""
    from twinnet.blame.causes import FAMILIES
    from twinnet.errors import UsageError
    from twinnet.plugins import ignored, plugins
    from twinnet.restore.tasks import TASKS

    own = {"cause": FAMILIES, "task": TASKS}.get(kind, {})
    said = [f"warning: {line}" for line in ignored(kind, own)]
    for plugin in plugins(kind, own).values():
        try:
            plugin.load()
        except UsageError as error:
            said.append(f"warning: {error}")
        else:
            said.append(f"{kind} {plugin.name}: from {plugin.origin}")
    return said
