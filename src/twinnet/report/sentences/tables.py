"""Networks of lookup tables."""

from __future__ import annotations

from twinnet.report.sentences.registry import sentence


@sentence("tables.no_site")
def _() -> str:
    return "not a site of the tables"


@sentence("tables.shape")
def _(network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    return f"shape {tuple(twin)} where the tables give {tuple(network)}"


@sentence("tables.between")
def _() -> str:
    return "entries may be off by one, and the sites between are not shown"


@sentence("tables.values")
def _(count: int, elements: int, exact: bool) -> str:
    how = "exact" if exact else "one unit per entry"
    return f"{count} of {elements} values are not what the tables give ({how})"


@sentence("table.cells")
def _(taps: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    return ", ".join(f"only where tap {tap} is in bin {_few(bins)}" for tap, bins in taps)


def _few(bins: tuple[int, ...]) -> str:
    return ", ".join(map(str, bins[:4])) + (" ..." if len(bins) > 4 else "")
