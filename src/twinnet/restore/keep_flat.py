"""Tuning tables without touching flat areas: after every step the diagonals are moved back to where they keep them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from twinnet.lut.exporter import units
from twinnet.lut.flat import flat_sums
from twinnet.lut.lowering import lower
from twinnet.lut.net import LutNet

__all__ = ["keep_flat"]


def keep_flat(net: LutNet) -> Callable[[], None]:
    """A function that changes the entries of a network in table mode as little as its flat areas need."""
    parameters = {path.removesuffix(".unit"): unit.table for path, unit in units(net)}
    work = []
    for sums in flat_sums(lower(net)):
        places = torch.tensor(sums.places)
        wanted = torch.from_numpy(sums.wanted) / 127
        entries = [(parameters[name], torch.from_numpy(rows)) for name, rows in zip(sums.tables, sums.rows)]
        work.append((entries, places, wanted))

    @torch.no_grad()
    def settle() -> None:
        for entries, places, wanted in work:
            total = sum(table[rows[:, None], places].sum(dim=1) for table, rows in entries)
            excess = (total - wanted.to(total)) / (len(entries) * len(places))
            for table, rows in entries:
                table[rows[:, None], places] -= excess[:, None]

    return settle
