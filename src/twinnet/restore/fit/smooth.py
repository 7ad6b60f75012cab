"""Penalties on the change of a table: size, differences along axes, differences along the diagonal.

Rare cells have few sites. Without a penalty they learn noise; with one they follow their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinnet.restore.fit.layout import TableLayout

__all__ = ["Penalty", "Smoothness"]


@dataclass(frozen=True)
class Penalty:
    """Weights in output units for a grid of 17 nodes; coarser grids take proportionally less.

    The diagonal weighs most: along it only the brightness changes, and a table hardly depends on that.
    """

    size: float = 0.02
    axis: float = 1.0
    diagonal: float = 300.0


class Smoothness:
    """The quadratic form of a penalty over all tables of a stage."""

    def __init__(self, layouts: Sequence[TableLayout], penalty: Penalty, gain: float) -> None:
        self.parts = [_Part(layout, penalty, gain) for layout in layouts]
        self.starts = np.cumsum([0, *(layout.rows * layout.outputs for layout in layouts)]).tolist()

    def add_product(self, vector: np.ndarray, out: np.ndarray) -> None:
        """out += R vector."""
        for part, a, b in zip(self.parts, self.starts, self.starts[1:]):
            part.add_product(vector[a:b], out[a:b])

    def diagonal(self) -> np.ndarray:
        """Diagonal of R."""
        return np.concatenate([part.diagonal() for part in self.parts])


class _Part:
    def __init__(self, layout: TableLayout, penalty: Penalty, gain: float) -> None:
        self.layout = layout
        squared, coarser = gain * gain, layout.grid.step / 16
        self.size = np.float32(penalty.size * squared)
        self.axis = np.float32(penalty.axis * squared / coarser)
        self.along = np.float32(penalty.diagonal * squared / coarser)
        self.inside: np.ndarray | None = None
        if layout.width:
            self.inside = np.zeros(layout.dense_rows, bool)
            self.inside[layout.cells] = True

    def add_product(self, vector: np.ndarray, out: np.ndarray) -> None:
        layout = self.layout
        out += self.size * vector
        if self.inside is None:
            self._differences(vector, out, layout.grid.nodes, None)
            return
        band = len(layout.cells) * layout.outputs
        dense = np.zeros((layout.dense_rows, layout.outputs), np.float32)
        dense[layout.cells] = vector[:band].reshape(-1, layout.outputs)
        product = np.zeros_like(dense)
        self._differences(dense, product, layout.grid.nodes, self.inside)
        out[:band] += product[layout.cells].reshape(-1)
        self._differences(vector[band:], out[band:], layout.few, None)

    def _differences(
        self, vector: np.ndarray, out: np.ndarray, nodes: int, inside: np.ndarray | None
    ) -> None:
        axes, outputs = self.layout.axes, self.layout.outputs
        shape = (nodes,) * axes
        v, o = vector.reshape(*shape, outputs), out.reshape(*shape, outputs)
        mask = None if inside is None else inside.reshape(*shape, 1)
        for strength, steps in self._steps():
            if strength == 0:
                continue
            up = tuple(slice(1, None) if s else slice(None) for s in steps)
            down = tuple(slice(None, -1) if s else slice(None) for s in steps)
            difference = v[up] - v[down]
            difference *= strength
            if mask is not None:
                difference *= mask[up] & mask[down]
            o[up] += difference
            o[down] -= difference

    def _steps(self) -> list[tuple[np.float32, tuple[int, ...]]]:
        axes = self.layout.axes
        along = [(self.axis, tuple(int(i == k) for i in range(axes))) for k in range(axes)]
        return [*along, (self.along, (1,) * axes)]

    def diagonal(self) -> np.ndarray:
        """How often each entry takes part, times the strength; border effects of a band are left out."""
        layout = self.layout

        def dense(nodes: int) -> np.ndarray:
            total = np.full((nodes,) * layout.axes, self.size, np.float32)
            for strength, steps in self._steps():
                up = tuple(slice(1, None) if s else slice(None) for s in steps)
                down = tuple(slice(None, -1) if s else slice(None) for s in steps)
                total[up] += strength
                total[down] += strength
            return total.reshape(-1)

        rows = dense(layout.grid.nodes)
        if layout.width:
            rows = np.concatenate([rows[layout.cells], dense(layout.few)])
        return np.repeat(rows, layout.outputs)
