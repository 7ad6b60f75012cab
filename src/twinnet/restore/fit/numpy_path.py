"""The passes over sites in numpy: slow, for machines without a compiler and to check the native ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twinnet.lut.plan import turn
from twinnet.restore.fit.layout import TableLayout
from twinnet.restore.fit.sites import SiteData

__all__ = ["fit_pass", "squares", "walk"]


def walk(values: np.ndarray, nodes: int, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells and whole-number weights of the simplex vertices: values [axes, sites] to two [axes + 1, sites].

    >>> cells, weights = walk(np.array([[40], [250]]), 9, 32)
    >>> cells.ravel().tolist(), weights.ravel().tolist()
    ([16, 17, 26], [6, 18, 8])
    """
    axes = len(values)
    values = values.astype(np.int64)
    bins = np.minimum(values // units, nodes - 2)
    frac = values - bins * units
    strides = nodes ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    order = np.argsort(-frac, axis=0, kind="stable")
    falling = np.take_along_axis(frac, order, 0)
    edge = np.full((1, values.shape[1]), units, np.int64)
    bounds = np.concatenate([edge, falling, np.zeros_like(edge)])
    base = (bins * strides[:, None]).sum(0, keepdims=True)
    cells = np.concatenate([base, base + np.cumsum(strides[order], axis=0)])
    return cells, bounds[:-1] - bounds[1:]


def vertices(layout: TableLayout, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the table and weights that add up to one, for values [axes, sites]."""
    cells, weights = walk(values, layout.grid.nodes, layout.grid.step)
    if not layout.width:
        return cells, (weights / layout.grid.step).astype(np.float32)
    far, far_weights = walk(values, layout.few, layout.grid.step * layout.thin)
    away = np.abs(values[1:].astype(np.int64) - values[:1])
    near = (away <= layout.width * layout.grid.step).all(0)
    rows = np.where(near, layout.map[cells], len(layout.cells) + far)
    return rows, (
        np.where(near, weights * layout.thin, far_weights) / (layout.grid.step * layout.thin)
    ).astype(np.float32)


def _lookups(
    layouts: Sequence[TableLayout], image: np.ndarray, target: np.ndarray, border: int
) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Table, rotation, rows and weights of every lookup. `image` is [planes, phase rows, phase columns, ...]."""
    rows, columns = target.shape[:2]
    for t, layout in enumerate(layouts):
        cell = layout.cell
        for r in range(4):
            values = []
            for k, offset in enumerate(layout.offsets):
                dy, dx = turn(offset, r, cell)
                plane = (
                    (layout.planes[k] if layout.planes else 0) * cell * cell + dy % cell * cell + dx % cell
                )
                y, x = border + dy // cell, border + dx // cell
                values.append(image[plane, y : y + rows, x : x + columns].reshape(-1))
            yield t, r, *vertices(layout, np.stack(values))


def _turns(n: int) -> list[np.ndarray]:
    """turns[r][e]: which payload element lands at element e of the block in rotation r."""
    row, col = np.divmod(np.arange(n * n), n)
    pairs = ((row, col), (n - 1 - col, row), (n - 1 - row, n - 1 - col), (col, n - 1 - row))
    return [u * n + v for u, v in pairs]


def fit_pass(
    layouts: Sequence[TableLayout],
    data: SiteData,
    tables: Sequence[np.ndarray],
    gain: float,
    offset: float | None,
    with_gradient: bool,
) -> tuple[float, list[np.ndarray]]:
    """Loss and half its gradient, as `twf_fit_pass` computes them; without an `offset` the targets are left out."""
    outputs = layouts[0].outputs
    turns = _turns(layouts[0].upscale)
    gradients = [np.zeros_like(table, np.float64) for table in tables] if with_gradient else []
    loss = 0.0
    for image, target in zip(data.images, data.targets):
        seen = list(_lookups(layouts, image, target, data.border))
        total = np.zeros((target.shape[0] * target.shape[1], outputs), np.float64)
        for t, r, cells, weights in seen:
            total += np.einsum("is,isc->sc", weights, tables[t][cells])[:, turns[r]]
        residual = total * gain
        if offset is not None:
            residual += offset - target.reshape(-1, outputs).astype(np.float64)
        loss += float((residual**2).sum())
        residual *= gain
        for t, r, cells, weights in seen if with_gradient else ():
            back = np.empty_like(residual)
            back[:, turns[r]] = residual
            for c in range(outputs):
                parts = weights * back[None, :, c]
                gradients[t][:, c] += np.bincount(cells.ravel(), parts.ravel(), len(gradients[t]))
    return loss, [gradient.astype(np.float32) for gradient in gradients]


def squares(layouts: Sequence[TableLayout], data: SiteData, gain: float) -> list[np.ndarray]:
    """Sum of squared weights of every row of every table, as `twf_squares` computes it."""
    sums = [np.zeros(layout.rows) for layout in layouts]
    for image, target in zip(data.images, data.targets):
        for t, _, cells, weights in _lookups(layouts, image, target, data.border):
            sums[t] += np.bincount(cells.ravel(), (weights.ravel() * gain) ** 2, len(sums[t]))
    return [total.astype(np.float32) for total in sums]
