"""`twinnet diff`: two networks side by side, without running them."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._screen import say

__all__ = ["command"]


def command(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A network: file.py:factory, .onnx, .pt2 or lookup tables.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other network, of any format.")],
    shape: o.Shape = None,
    trust: o.Trust = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two networks without running them: layers, attributes, weights, inputs and outputs.

    Exit codes: 0 the same, 1 different, 2 a side cannot be read.

    Example: twinnet diff model.py:build exported.onnx
    """
    from twinnet.structure import diff

    found = diff(a, b, shapes=o.shapes(shape), trust=trust)
    say(found.to_json() if as_json else repr(found))
    raise typer.Exit(found.exit_code)
