"""`twinnet cache`: how large the cache of artefacts is, and how to empty it."""

from __future__ import annotations

import typer

from twinnet.cli._screen import say
from twinnet.cli._verbs import Verbs

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    help="Show or empty the cache: exported, converted and compiled networks, and results of suites.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("info")
def info() -> None:
    """Print where the cache is, how many artefacts it holds, and how large they are."""
    from twinnet.cache import cache_info

    found = cache_info()
    say(f"folder   {found.folder}")
    say(
        f"holds    {found.artefacts} artefacts, {_size(found.size)} of {_size(found.limit)} (TWINNET_CACHE_LIMIT)"
    )


@app.command("clear")
def clear() -> None:
    """Remove everything from the cache except what is being built at this moment."""
    from twinnet.cache import clear_cache

    gone = clear_cache()
    say(f"removed  {gone.artefacts} artefacts, {_size(gone.size)}, from {gone.folder}")


def _size(count: int) -> str:
    """A number of bytes for people.

    >>> _size(3 << 20)
    '3.0 MiB'
    """
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
