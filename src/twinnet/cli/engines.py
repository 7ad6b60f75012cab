"""`twinnet engines`: installed engines, what each can do, how to install the rest, and plug-ins."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from twinnet.cli._screen import console, say

if TYPE_CHECKING:
    from twinnet.engines.base import Engine
    from twinnet.plugins import Kind

__all__ = ["command"]


def command(
    engine: Annotated[
        str | None, typer.Argument(metavar="[ENGINE]", help="Print the options of this one.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="PLACE", help="What a board has: ssh://[user@]host[:port]."),
    ] = None,
) -> None:
    """List the engines: what is installed and from where, what each can do, and how to install the rest."""
    from twinnet.engines.spec import place_name
    from twinnet.errors import UsageError

    board = place_name(on)
    if board and engine:
        raise UsageError("--on lists all engines of a board", hint=f"leave out {engine}, or --on")
    if engine:
        _describe(engine)
    elif board:
        _list_board(board)
    else:
        _list_here()


def _describe(name: str) -> None:
    """One engine with all its options, one to a line."""
    from rich.table import Table

    from twinnet.engines import find_engine, origin_of
    from twinnet.errors import MissingExtra

    engine = find_engine(name)
    try:
        version = engine.version()
    except MissingExtra as error:
        version = f"not installed: pip install 'twinnet[{error.extra}]'"
    say(
        f"{name} {version}, from {origin_of(name)}; shows {_shows(engine)}; parts alone: {engine.abilities.segment}"
    )
    if not engine.options:
        say("it has no options")
        return
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for title in ("option", "values"):
        table.add_column(title, overflow="fold")
    for key, values in engine.options.items():
        table.add_row(key, values)
    console().print(table)
    say(f"\nseveral: --twin '{name}?KEY=VALUE&KEY=VALUE'")


def _shows(engine: Engine) -> str:
    able = engine.abilities
    return able.note or ("all tensors" if able.capture else "outputs only")


def _list_board(address: str) -> None:
    """The engines that have a runner for boards, and what this one lacks."""
    import shlex

    from rich.table import Table

    from twinnet.engines import all_engines
    from twinnet.remote.board import board_at
    from twinnet.remote.facts import facts

    able = {engine.name: engine.board for engine in all_engines() if engine.board is not None}
    board = board_at(address)
    try:
        found = facts(board, sorted({package for needs in able.values() for package in needs}))
    finally:
        board.connection.close()
    login, python = board.address.login, board.address.python
    shown = f"{python} {found.python}" if found.python else f"no {python}"
    say(f"{login.rpartition(' ')[2]}: {shown} on {found.machine}, files in {board.home.folder}\n")
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for title in ("engine", "version there", "install with"):
        table.add_column(title, overflow="fold")
    for name, needs in able.items():
        lacks = [package for package in needs if package not in found.packages]
        version = f"{needs[-1]} {found.packages.get(needs[-1], '')}" if needs else "its programs, on PATH"
        if needs and not found.python:
            table.add_row(name, "needs Python", "")
        elif lacks:
            line = f"ssh {login} {shlex.quote(python)} -m pip install {' '.join(lacks)}"
            table.add_row(name, f"lacks {', '.join(lacks)}", line)
        else:
            table.add_row(name, version, "")
    console().print(table)


def _list_here() -> None:
    from rich.table import Table

    from twinnet.engines import BUILT_IN, engine_names, find_engine, origin_of
    from twinnet.errors import MissingExtra, UsageError
    from twinnet.plugins import KINDS, ignored, plugins

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for title in ("engine", "version", "from", "shows", "parts alone"):
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
            said.append(f"{name}: pip install 'twinnet[{error.extra}]'")
        table.add_row(name, version, origin_of(name), _shows(engine), engine.abilities.segment)
    console().print(table)
    said += [f"warning: {line}" for line in ignored("engine", BUILT_IN)]
    for kind in KINDS[1:]:
        said += _added(kind) if plugins(kind) else []
    for line in said:
        say(line)
    say(
        "\nspec: ENGINE[?key=value&key=value][:FILE]     example: --twin 'onnxruntime?opt=off'"
        "\n`twinnet engines ENGINE` lists the options of one"
    )


def _added(kind: Kind) -> list[str]:
    """A line for each plug-in of this kind."""
    from twinnet.errors import UsageError
    from twinnet.extras import optional_packages
    from twinnet.plugins import ignored, plugins

    own = _own(kind)
    said = [f"warning: {line}" for line in ignored(kind, own)]
    for plugin in plugins(kind, own).values():
        try:
            with optional_packages():
                plugin.load()
        except UsageError as error:
            said.append(f"warning: {error}")
        else:
            said.append(f"{kind} {plugin.name}: from {plugin.origin}")
    return said


def _own(kind: Kind) -> Collection[str]:
    """The names of this kind that twinnet has itself, which a plug-in cannot take."""
    if kind == "cause" and find_spec("torch") is not None:
        from twinnet.blame.causes import FAMILIES

        return FAMILIES
    if kind == "task":
        from twinnet.restore.tasks import TASKS

        return TASKS
    return ()
