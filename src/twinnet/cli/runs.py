"""`twinnet runs`: the cases of a dashboard's sessions, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli._screen import say
from twinnet.cli.upload import ServerUrl, needed_server

__all__ = ["command"]


def command(
    session: Annotated[
        int | None, typer.Argument(metavar="SESSION", help="Number of a session (default: all).")
    ] = None,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Only this model.")] = "",
    engine: Annotated[str, typer.Option("--engine", metavar="NAME", help="Only this engine.")] = "",
    verdict: Annotated[
        str, typer.Option("--verdict", metavar="PASS|FAIL|ERROR|SKIP", help="Only this verdict.")
    ] = "",
    limit: Annotated[
        int, typer.Option("-n", metavar="N", min=1, max=200, help="How many, newest first.")
    ] = 50,
    to: ServerUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer of the API.")] = False,
) -> None:
    """List runs on the dashboard: verdict, error relative to the noise floor, and the layer where it is born.

    Example: twinnet runs 812 --verdict FAIL
    """
    import json

    from twinnet.cli.sessions import short, table
    from twinnet.dashboard.words import NBSP, ratio

    server = needed_server(to)
    found = server.get(
        "runs", session=session, model=model, engine=engine, verdict=verdict.upper(), limit=limit
    )
    if as_json:
        say(json.dumps(found, indent=1))
        return
    rows = [
        (
            one["verdict"],
            ratio(one["ratio"]).replace(NBSP, " ") or "-",
            short(one["name"]),
            one["born"] or one["message"].partition("\n")[0][:60] or "-",
            f"{server.url}/cases/{one['id']}",
        )
        for one in found["items"]
    ]
    for line in table(rows):
        say(line)
    if not rows:
        say("no runs match")
