"""`cmp`: how far the twin is from the network at a site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.registry import command
from twinnet.debugger.figures import grid, number
from twinnet.debugger.picture import picture
from twinnet.debugger.ranges import Index, read_ranges, spell
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.judge.metrics import compare
from twinnet.precision import dtype_class
from twinnet.report.figures import grouped
from twinnet.report.slices import Compared
from twinnet.signature import dims

__all__ = ["Comparison", "cmp"]


@dataclass(frozen=True, repr=False)
class Comparison(Answer):
    """The answer of `cmp`; `cmp(site)[0, :, 10:20]` narrows it."""

    again: Any = None

    def __getitem__(self, where: Any) -> Comparison:
        return self.again(where if isinstance(where, tuple) else (where,))


@command()
def cmp(stopped: Stopped, site: Any, *where: Any, size: int = 8) -> Comparison:
    """Largest and mean difference (twin minus network) at a site, and a corner of it.

    `where` selects index ranges, as text ("0, :, 10:20, 5:15"), slices or numbers; "worst" selects the neighbourhood
    of the worst element. `size` is the side of the corner. cmp(a, b) compares two arrays.
    """
    if not isinstance(site, str):
        if not where:
            raise UsageError("cmp of an array needs a second array", hint="cmp(a, b), or cmp('site')")
        ours, theirs = _array(site), _array(where[0])
        return _comparison("the two arrays", "", ours, theirs, where[1:], size)
    row = stopped.row(site)
    ours, theirs = stopped.same_shape(row)
    return _comparison(row.site.tensor, stopped.unit, ours, theirs, where, size)


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype == object:
        raise UsageError(
            f"{type(value).__name__} is not an array", hint="cmp('site'), or cmp(a, b) of two arrays"
        )
    return array


def _comparison(
    name: str, unit: str, ours: np.ndarray, theirs: np.ndarray, where: tuple[Any, ...], size: int
) -> Comparison:
    if ours.shape != theirs.shape:
        raise UsageError(f"{name}: shapes {ours.shape} and {theirs.shape} cannot be compared")
    if dtype_class(ours.dtype) != dtype_class(theirs.dtype):
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    if size < 1:
        raise UsageError(f"size must be at least 1, got {size}")
    whole = compare(ours, theirs)
    if where == ("worst",):
        # A window in the last two axes around the worst element, the other axes at its index.
        lead = whole.index[:-2]
        tail = [
            slice(max(0, min(i - size // 2, n - size)), max(0, min(i - size // 2, n - size)) + size)
            for i, n in zip(whole.index[-2:], ours.shape[-2:])
        ]
        where = (*lead, *tail)
    index = read_ranges(where, ours.shape)
    narrowed = bool(where)
    a, b = (ours[index], theirs[index]) if narrowed else (ours, theirs)
    a, b = np.asarray(a), np.asarray(b)
    if narrowed and not a.size:
        raise UsageError(f"{spell(index)} of {list(ours.shape)} is empty")
    found = compare(a, b) if narrowed else whole
    units = f" {unit}" if unit else ""
    shape = dims(a.shape)
    place = f"{name}{' ' + spell(index) if narrowed else ''}"
    lines = [f"{place}   {shape} {a.dtype.name}, twin minus network{' in ' + unit if unit else ''}"]
    at = ""
    if found.index or found.differing:
        spot = list(_whole_index(index, found.index)) if narrowed else list(found.index)
        at = f" at {spot} (network {number(found.value_reference)}, twin {number(found.value_twin)})"
    lines.append(f"max {number(found.max_abs)}{units}{at}")
    lines.append(
        f"mean {number(found.mean_abs)}{units}, {grouped(found.differing)} of {grouped(found.elements)} differ"
    )
    if found.nonfinite_mismatch:
        lines.append(f"NaN or Inf on one side only: {grouped(found.nonfinite_mismatch)} elements")
    corner, cut = _corner(a, b, size)
    lines.append(f"corner {spell(cut)}")
    lines += grid(corner)
    data = {
        "site": name,
        "unit": unit,
        "shape": list(a.shape),
        "max": found.max_abs,
        "mean": found.mean_abs,
        "differing": found.differing,
        "elements": found.elements,
        "index": _whole_index(index, found.index) if narrowed else list(found.index),
        "network": found.value_reference,
        "twin": found.value_twin,
        "nonfinite": found.nonfinite_mismatch,
        "corner": np.atleast_2d(corner).tolist(),
        "corner_at": spell(cut),
    }

    def again(further: tuple[Any, ...]) -> Comparison:
        return _comparison(name, unit, ours, theirs, further, size)

    return Comparison("\n".join(lines), data, lambda: picture(a, b), again)


def _whole_index(index: Index, inner: tuple[int, ...]) -> list[int]:
    """The index in the whole tensor of an element of a part."""
    rest = iter(inner)
    if not inner:
        return []
    found = []
    for part in index:
        if isinstance(part, slice):
            step = part.step or 1
            found.append((part.start or 0) + step * next(rest))
        else:
            found.append(int(part))
    return found


def _corner(a: np.ndarray, b: np.ndarray, size: int) -> tuple[np.ndarray, Index]:
    """The difference at the first elements of the last two axes, at index 0 of the others."""
    cut: Index = (*[0] * max(0, a.ndim - 2), *[slice(0, size)] * min(2, a.ndim))
    return np.asarray(Compared.of(np.asarray(a[cut]), np.asarray(b[cut])).difference), cut
