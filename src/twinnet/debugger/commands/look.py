"""`show`: statistics of both tensors of a site; `plane`: the numbers behind a heat map."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.listing import facts
from twinnet.debugger.commands.registry import command
from twinnet.debugger.figures import number, table
from twinnet.debugger.picture import picture
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.report.pictures import DECADES, DIFFERENCE, ODD, VALUES
from twinnet.report.slices import Compared, reduce_peak
from twinnet.result import PairResult
from twinnet.signature import dims

__all__ = ["plane", "show"]

_CHANNELS = 16
_SIDE = 512


@command()
def show(stopped: Stopped, site: str, channels: int = _CHANNELS) -> Answer:
    """Statistics of both tensors of a site, whole and per channel, the channels that differ most first."""
    row = stopped.row(site)
    ours, theirs = stopped.both(row)
    lines = [f"site     {row.site.label}" + (f"   {row.site.source}" if row.site.source else "")]
    lines.append(f"tensor   {row.site.tensor}   twin {row.twin_site.tensor}   paired by {row.how}")
    words = f"{row.status}" + (f": {row.reason}" if row.reason is not None else "")
    lines.append(f"status   {words}")
    if row.transform:
        lines.append(f"twin is  {row.transform} of what it holds")
    head = ["", "shape", "dtype", "min", "max", "mean", "std", "NaN", "Inf"]
    stats = {"network": statistics(ours), "twin": statistics(theirs)}
    lines += ["", *table(head, [[side, *_cells(s)] for side, s in stats.items()], left=3)]
    data: dict[str, Any] = {**facts(row), **stats, "channels": []}
    if ours.shape == theirs.shape and ours.size:
        text, data["channels"] = _per_channel(ours, theirs, channels)
        lines += text
        return Answer("\n".join(lines), data, lambda: picture(ours, theirs))
    return Answer("\n".join(lines), data)


def statistics(array: np.ndarray) -> dict[str, Any]:
    """Figures of one tensor, over its finite elements.

    >>> statistics(np.array([1.0, 3.0, np.nan]))["mean"]
    2.0
    """
    floats = array.astype(np.float64) if array.dtype.kind != "c" else np.abs(array)
    good = floats[np.isfinite(floats)]
    figures = (good.min(), good.max(), good.mean(), good.std()) if good.size else (None,) * 4
    low, high, mean, std = (None if f is None else float(f) for f in figures)
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "min": low,
        "max": high,
        "mean": mean,
        "std": std,
        "nan": int(np.isnan(floats).sum()),
        "inf": int(np.isinf(floats).sum()),
    }


def _cells(stats: dict[str, Any]) -> list[str]:
    shape = dims(stats["shape"])
    return [shape, stats["dtype"], *(number(stats[k]) for k in ("min", "max", "mean", "std", "nan", "inf"))]


def _per_channel(ours: np.ndarray, theirs: np.ndarray, most: int) -> tuple[list[str], list[dict[str, Any]]]:
    compared = Compared.of(ours, theirs)
    axis = compared.channel_axis
    sizes = compared.channels
    if axis is None or len(sizes) < 2:
        return [], []
    order = [int(c) for c in np.argsort(-sizes, kind="stable")[:most]]
    rows, data = [], []
    for c in order:
        a, b = (statistics(np.take(x, c, axis=axis)) for x in (ours, theirs))
        row = [str(c), number(float(sizes[c]))]
        row += [number(s[k]) for k in ("min", "max", "mean") for s in (a, b)]
        rows.append(row)
        data.append({"channel": c, "largest": float(sizes[c]), "network": a, "twin": b})
    head = ["channel", "max diff", "min", "(twin)", "max", "(twin)", "mean", "(twin)"]
    lines = ["", *table(head, rows, left=0)]
    if len(order) < len(sizes):
        lines.append(f"{len(order)} of {len(sizes)} channels, those that differ most")
    return lines, data


@command()
def plane(
    stopped: Stopped,
    site: str,
    lead: list[int] | tuple[int, ...] | None = None,
    top: int = 0,
    left: int = 0,
    rows: int | None = None,
    columns: int | None = None,
) -> Answer:
    """A rectangle of the last two axes of a site, as numbers (little-endian float32 in base64, with the scale).

    `lead` are the indices of the other axes (default: those of the worst element). A side longer than 512 is reduced to
    the values furthest from the mean.
    """
    row = stopped.row(site)
    ours, theirs = stopped.same_shape(row)
    flat, (a, b), where = _matrix(row, ours, theirs, lead)
    height, width = a.shape
    bottom = height if rows is None else min(height, top + max(1, rows))
    right = width if columns is None else min(width, left + max(1, columns))
    if not (0 <= top < bottom and 0 <= left < right):
        raise UsageError(f"rows {top}:{bottom} and columns {left}:{right} of {height} x {width} are empty")
    compared = Compared.of(ours, theirs)
    both = np.concatenate([x[np.isfinite(x)].ravel() for x in (a, b)]).astype(np.float64)
    cut = tuple(np.asarray(x[top:bottom, left:right], np.float64) for x in (a, b))
    difference = np.asarray(Compared.of(*cut).difference, np.float64)
    parts = {"network": cut[0], "twin": cut[1], "difference": difference}
    packed = {
        name: _reduced(values, float(both.mean()) if both.size else 0.0) for name, values in parts.items()
    }
    packed["difference"] = reduce_peak(difference, _SIDE, _SIDE)
    shape = packed["network"].shape
    data = {
        "site": row.site.tensor,
        "shape": list(ours.shape),
        "lead": where,
        "flat": flat,
        "height": height,
        "width": width,
        "top": top,
        "left": left,
        "bottom": bottom,
        "right": right,
        "rows": shape[0],
        "columns": shape[1],
        "unit": stopped.unit,
        "low": float(both.min()) if both.size else 0.0,
        "high": float(both.max()) if both.size else 0.0,
        "largest": compared.largest,
        "colours": {"values": VALUES, "difference": DIFFERENCE, "odd": ODD, "decades": DECADES},
        **{name: base64.b64encode(v.astype("<f4").tobytes()).decode() for name, v in packed.items()},
    }
    text = f"{row.site.tensor} {where}: rows {top}:{bottom}, columns {left}:{right} of {height} x {width}"
    return Answer(f"{text}\nuse Accept: application/json to get the numbers", data, lambda: picture(*cut))


def _matrix(
    row: PairResult, ours: np.ndarray, theirs: np.ndarray, lead: list[int] | tuple[int, ...] | None
) -> tuple[bool, tuple[np.ndarray, np.ndarray], list[int]]:
    """A matrix of each side from tensors of any rank, and its leading indices."""
    if not ours.size:
        raise UsageError(f"{row.site.tensor} is empty")
    if ours.ndim < 2:
        return True, (np.atleast_2d(ours), np.atleast_2d(theirs)), []
    if lead is None:
        lead = list(row.difference.index[:-2]) or [0] * (ours.ndim - 2)
    where = [int(i) for i in lead]
    if len(where) != ours.ndim - 2 or any(not -n <= i < n for i, n in zip(where, ours.shape)):
        raise UsageError(f"lead={where} does not fit the leading axes of {list(ours.shape)}")
    return False, (ours[tuple(where)], theirs[tuple(where)]), where


def _reduced(values: np.ndarray, centre: float) -> np.ndarray:
    return reduce_peak(values - centre, _SIDE, _SIDE) + centre if max(values.shape) > _SIDE else values
