"""The one screen: verdict, place, size, cause, next command, in any width and without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.report import figures
from twinnet.report.layout import lay_out
from twinnet.report.rows import rows_of
from twinnet.result import Result, ResultSet

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_result", "render_text", "render_unmatched"]

_DEFAULT_WIDTH = 80
_NARROWEST = 24


def render_text(result: Result | ResultSet, width: int = _DEFAULT_WIDTH) -> str:
    """The screen as text, without a trailing newline.

    >>> from twinnet.result import InputsInfo, Result, SideInfo
    >>> print(render_text(Result("PASS", SideInfo("net", "torch"), SideInfo("onnxruntime", "onnxruntime"),
    ...                          InputsInfo(1, "synthetic", True))))
    network  net (torch)     twin  onnxruntime
    inputs   1 synthetic sample
    <BLANKLINE>
    PASS     no difference was found
    """
    width = max(_NARROWEST, width)
    lines = lay_out(rows_of(result, verbose=False, width=width), width)
    return "\n".join(label + text for label, _, text in lines)


def print_result(result: Result | ResultSet, console: Console, verbose: bool = False) -> None:
    """Print the screen; `verbose` adds contributors, segments, timings, environment and the whole log."""
    from rich.text import Text

    width = max(_NARROWEST, min(console.width, 120))
    for label, style, text in lay_out(rows_of(result, verbose=verbose, width=width), width):
        line = Text(label, style=style)
        line.append(text, style="" if label or style == "dim" else style)
        console.print(line, soft_wrap=True, highlight=False)


def render_unmatched(result: Result | ResultSet) -> str:
    """List the sites of either side that have no counterpart, one per line (`--unmatched`).

    >>> from twinnet.result import Coverage, InputsInfo, Result, SideInfo
    >>> print(render_unmatched(Result("PASS", SideInfo("net", "torch"), SideInfo("ort", "onnxruntime"),
    ...                               InputsInfo(1, "x", True), Coverage(3, 2, 2, 2, ("conv1.bn",)))))
    network: 1 of 3 sites without a counterpart
      conv1.bn
    """
    blocks = []
    for one in result.results if isinstance(result, ResultSet) else (result,):
        coverage = one.coverage
        twin = f"twin {figures.clean(one.twin.name)}" if isinstance(result, ResultSet) else "twin"
        for who, names, total in (
            ("network" if twin == "twin" else f"network ({twin})", coverage.unmatched, coverage.sites),
            (twin, coverage.unmatched_twin, coverage.twin_sites),
        ):
            if names:
                head = f"{who}: {len(names)} of {max(total, len(names))} sites without a counterpart"
                blocks.append("\n".join([head, *(f"  {figures.clean(name)}" for name in names)]))
    return "\n".join(blocks) or "every site of both sides has a counterpart"
