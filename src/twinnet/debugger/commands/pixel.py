"""`at`: one pixel through the network."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.registry import command
from twinnet.debugger.figures import number
from twinnet.debugger.pixel_layers import explain_layers
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError

__all__ = ["at"]


@command()
def at(stopped: Stopped, site: str, y: int, x: int, channel: int = 0, sample: int = 0) -> Answer:
    """Explain one pixel of a site on both sides.

    For tables: taps, values, bins, fractions, vertices, weights and entries of the lookup behind it, the network's own
    entries beside the twin's. For other networks: the values it is computed from, and for a convolution its taps.
    `channel` and `sample` (or plane) choose the other axes.
    """
    row = stopped.row(site)
    ours, theirs = stopped.same_shape(row)
    index = _index(ours.shape, y, x, channel, sample)
    a, b = ours[index], theirs[index]
    lines = [
        f"{row.site.tensor}{list(index)}   network {number(a)}, twin {number(b)}, "
        f"difference {number(float(b) - float(a))}{' ' + stopped.unit if stopped.unit else ''}"
    ]
    data: dict[str, Any] = {
        "site": row.site.tensor,
        "index": list(index),
        "network": float(a),
        "twin": float(b),
    }
    own = stopped.meaning.pixel(stopped, row, index) if stopped.meaning is not None else None
    text, more = explain_layers(stopped, row, index) if own is None else own
    return Answer("\n".join([*lines, *text]), {**data, **more})


def _index(shape: tuple[int, ...], y: int, x: int, channel: int, sample: int) -> tuple[int, ...]:
    """The index [sample, channel, y, x], cut to the tensor's axes."""
    rank = len(shape)
    if rank < 2:
        index: tuple[int, ...] = (x,)[:rank]
    else:
        index = (sample, *[0] * (rank - 4), channel, y, x)[-rank:] if rank > 3 else (channel, y, x)[-rank:]
    for axis, (i, n) in enumerate(zip(index, shape)):
        if not isinstance(i, int | np.integer) or not 0 <= i < n:
            raise UsageError(f"{i} is out of range for axis {axis} of size {n} (the site is {list(shape)})")
    return tuple(int(i) for i in index)
