"""How the entries of one table differ from those of another, so that random tables can be made to differ alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinnet.lut.differences import AT_LAST_NODE, FROM_ELSEWHERE, MADE_WITH, OTHER_ENTRIES
from twinnet.lut.plan import Table

__all__ = ["Relation", "order_of", "relate"]

_TELLING = 3
"""Rows from which on a rule for all entries is believed."""
_TOP = 127

Kind = Literal["same", "sign", "order", "shift", "last", "rows", "all"]


@dataclass(frozen=True)
class Relation:
    """A way in which the entries of a table differ from another's.

    `kind` "same": they do not. "sign": all have the sign turned. "order": the outputs of every row are permuted by
    `order`. "shift": all are off by `high`. "last": only rows with a tap at the last node differ. "rows": the share
    `share` of the rows that are read, one of them where it is 0. "all": every row. Where amounts differ they are
    between `low` and `high`; `single` says that each row differs in one output only.
    """

    kind: Kind = "same"
    order: tuple[int, ...] = ()
    share: float = 0.0
    single: bool = False
    low: int = 1
    high: int = 1

    def applied(self, table: Table, part: str, read: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The entries beside those of `table` (its `part`, "values" or "coarse"); `read` are the rows that are read.

        >>> table = Table(np.zeros((4, 2), np.int8), axes=2, nodes=2, step=255)
        >>> other = Relation("rows", single=True, low=5, high=5).applied(
        ...     table, "values", np.array([2]), np.random.default_rng(0))
        >>> np.abs(other).sum(axis=1).tolist()
        [0, 0, 5, 0]
        """
        old = table.values if part == "values" else table.coarse
        assert old is not None
        wide = old.astype(np.int64)
        match self.kind:
            case "same":
                return old
            case "sign":
                return (-wide).clip(-_TOP, _TOP).astype(np.int8)
            case "order":
                return np.ascontiguousarray(old[:, list(self.order)])
            case "shift":
                return (wide + self.high).clip(-_TOP, _TOP).astype(np.int8)
            case "last":
                rows = np.flatnonzero(_at_last(table, np.arange(len(old))))
            case "all":
                rows = np.arange(len(old))
            case "rows":
                count = max(2, round(self.share * len(read))) if self.share else 1
                rows = rng.permutation(read)[:count]
        amounts = rng.integers(self.low, self.high + 1, (len(rows), old.shape[1]))
        amounts *= rng.choice([-1, 1], amounts.shape)
        if self.single:
            amounts *= np.arange(old.shape[1]) == rng.integers(old.shape[1])
        moved = wide[rows] + amounts
        wide[rows] = np.where(np.abs(moved) > _TOP, wide[rows] - amounts, moved)
        return wide.clip(-_TOP, _TOP).astype(np.int8)


def relate(
    table: Table, part: str, rows: np.ndarray, ours: np.ndarray, theirs: np.ndarray, cause: str = ""
) -> Relation:
    """What tells the entries `theirs` from `ours`, both known at `rows` of a table; [row, output].

    A few pixels read a few rows: where these leave it open, `cause` says how many differ.

    >>> table = Table(np.zeros((4, 2), np.int8), axes=2, nodes=2, step=255)
    >>> ours = np.array([[1, 2], [3, 4], [5, 6], [7, 9]])
    >>> [relate(table, "values", np.arange(4), ours, other).kind for other in (ours, -ours, ours[:, ::-1], ours + 1)]
    ['same', 'sign', 'order', 'shift']
    >>> relate(table, "values", np.arange(4), ours, ours + np.eye(4, 2, dtype=int)).share
    0.5
    """
    first, second = ours.astype(np.int64), theirs.astype(np.int64)
    off = second - first
    changed = np.flatnonzero(off.any(axis=1))
    if not len(changed):
        return Relation()
    size = np.abs(off[off != 0])
    low, high = int(size.min()), int(size.max())
    if len(rows) >= _TELLING:
        if np.array_equal(second, -first):
            return Relation("sign")
        order = order_of(first, second)
        if order is not None:
            return Relation("order", order=order)
        if (off == off.flat[0]).all():
            return Relation("shift", high=int(off.flat[0]))
    single = bool(((off != 0).sum(axis=1)[changed] == 1).all()) and off.shape[1] > 1
    if part == "values" and not table.banded:
        last, told = _at_last(table, rows), np.isin(np.arange(len(rows)), changed)
        some = 1 < len(changed) < len(rows)
        said = AT_LAST_NODE in cause or MADE_WITH in cause
        if (last | ~told).all() and (said or (some and np.array_equal(last, told))):
            return Relation("last", low=low, high=high)
    if len(changed) == len(rows) and (len(rows) > 1 or FROM_ELSEWHERE in cause):
        return Relation("all", single=single, low=low, high=high)
    share = len(changed) / len(rows) if len(changed) > 1 or OTHER_ENTRIES in cause else 0.0
    return Relation("rows", share=share, single=single, low=low, high=high)


def _at_last(table: Table, rows: np.ndarray) -> np.ndarray:
    """Which rows of a dense table have a tap at the last node."""
    nodes = np.stack(np.unravel_index(rows, (table.nodes,) * table.axes))
    return (nodes == table.nodes - 1).any(axis=0)


def order_of(first: np.ndarray, second: np.ndarray) -> tuple[int, ...] | None:
    """Which column of the first stands in each place of the second, where each has its own.

    >>> order_of(np.array([[1, 2, 3]]), np.array([[3, 1, 2]]))
    (2, 0, 1)
    """
    left = list(range(first.shape[1]))
    found = []
    for k in range(second.shape[1]):
        same = [j for j in left if np.array_equal(first[:, j], second[:, k])]
        if not same:
            return None
        # Its own place first: equal outputs are not exchanged.
        found.append(k if k in same else same[0])
        left.remove(found[-1])
    return tuple(found)
