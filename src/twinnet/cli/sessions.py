"""`twinnet sessions`: the sessions of a dashboard, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli._screen import say
from twinnet.cli.upload import ServerUrl, needed_server

__all__ = ["command", "short", "table"]


def command(
    search: Annotated[
        str, typer.Argument(metavar="WORDS", help="Part of a branch, a commit, an engine or a name.")
    ] = "",
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="Only this branch.")] = "",
    bad: Annotated[bool, typer.Option("--bad", help="Only sessions with unexpected failures.")] = False,
    limit: Annotated[
        int, typer.Option("-n", metavar="N", min=1, max=200, help="How many, newest first.")
    ] = 20,
    to: ServerUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer of the API.")] = False,
) -> None:
    """List the sessions on the dashboard.

    Example: twinnet sessions --branch main -n 5
    """
    import json

    from twinnet.dashboard.words import ago, plainly

    found = needed_server(to).get("sessions", q=search, branch=branch, bad="true" if bad else "", limit=limit)
    if as_json:
        say(json.dumps(found, indent=1))
        return
    rows = [
        (
            str(one["id"]),
            "PASS" if one["failed"] + one["errors"] <= one["known"] else "FAIL" if one["failed"] else "ERROR",
            f"{one['passed']} pass, {one['failed']} fail, {one['errors']} error",
            ago(one["started"]),
            short(one["branch"] or "-", 40),
            one["commit"][:8] or "-",
            one["who"] or "-",
            plainly(one["engines"]),
        )
        for one in found["items"]
    ]
    for line in table(rows):
        say(line)
    if not rows:
        say("no sessions match")


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell.

    >>> table([("a", "bb"), ("ccc", "d")])
    ['a    bb', 'ccc  d']
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def short(text: str, most: int = 60) -> str:
    """A name that leaves room for the rest of its line.

    >>> short("a" * 20 + "-onnxruntime", 21)
    'aaaaaaa...onnxruntime'
    """
    return (
        text
        if len(text) <= most
        else f"{text[: (most - 3) * 2 // 5]}...{text[-(most - 3 - (most - 3) * 2 // 5) :]}"
    )
