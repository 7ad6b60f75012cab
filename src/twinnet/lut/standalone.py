"""The plain interpreter as source text: what a file needs to evaluate steps of a plan without twinnet."""

from __future__ import annotations

from typing import Any

from twinnet.lut import band, plan, reference, serial

__all__ = ["SOURCES"]

SOURCES: tuple[Any, ...] = (
    plan.turn, plan.Plane, plan.Sample, plan.Blend, plan.Table, plan.Term, plan.Requant,
    serial._planes, serial._sample, serial.term_from_dict, reference.outside, reference._pixels,
    reference._fixed_point, reference._values, reference._interpolate, reference._count, reference._dense_rows,
    band.band_cells, band.band_index, reference._band_rows, reference._lookup, reference.lookup_term,
    reference.place_block,
)  # fmt: skip
"""Classes and functions in an order in which they can stand one after the other; they need numpy only."""
