"""One stage as a least-squares problem: the residual, its gradient and products with the normal matrix."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinnet.errors import EngineError, UsageError
from twinnet.lut.plan import turn
from twinnet.restore import native
from twinnet.restore.fit import numpy_path
from twinnet.restore.fit.layout import TableLayout
from twinnet.restore.fit.sites import SiteData

__all__ = ["Passes", "StageProblem"]


@dataclass(frozen=True)
class Passes:
    """What runs the passes over the sites: `executor` is `auto`, `native` or `numpy`."""

    threads: int = 1
    executor: str = "auto"
    instruction_set: str | None = None
    """A variant of the native passes; None takes the best."""


class StageProblem:
    """prediction = gain * (sum of all lookups, four rotations each) + offset, against the sites' targets.

    Entries of all tables form one float32 vector; `split` gives views of the tables in it.
    """

    def __init__(
        self,
        layouts: Sequence[TableLayout],
        data: SiteData,
        gain: float,
        offset: float = 0.0,
        passes: Passes | None = None,
    ) -> None:
        if not layouts:
            raise UsageError("a stage needs at least one table")
        if {(layout.cell, layout.upscale) for layout in layouts} != {(data.cell, data.upscale)}:
            raise UsageError("all tables of a stage must have the cell and upscale of its sites")
        reach = max(
            max(abs(v // data.cell) for v in turn(offset_, r, data.cell))
            for layout in layouts for offset_ in layout.offsets for r in range(4)
        )  # fmt: skip
        if reach > data.border:
            raise UsageError(
                f"a pattern reaches {reach} cells away, the sites have a border of {data.border}"
            )
        how = passes if passes is not None else Passes()
        if how.executor not in ("auto", "native", "numpy"):
            raise UsageError(f"no executor {how.executor!r} for fitting", hint="use auto, native or numpy")
        self.layouts, self.data = tuple(layouts), data
        self.gain, self.offset, self.threads = float(gain), float(offset), how.threads
        self.outputs = layouts[0].outputs
        sizes = [layout.rows * self.outputs for layout in layouts]
        self.starts = [0, *np.cumsum(sizes).tolist()]
        self.size: int = self.starts[-1]
        self._native = how.executor == "native" or (how.executor == "auto" and native.available())
        self._set = how.instruction_set.encode() if how.instruction_set else None
        if self._native:
            self._library = native.library()
            self._problem, self._keep = self._describe()

    def split(self, vector: np.ndarray) -> list[np.ndarray]:
        """Views of the tables in a parameter vector: [rows, outputs] each."""
        pairs = zip(self.starts, self.starts[1:])
        return [vector[a:b].reshape(-1, self.outputs) for a, b in pairs]

    def join(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """The parameter vector of some tables."""
        return np.concatenate([np.asarray(t, np.float32).reshape(-1) for t in tables])

    def loss(self, parameters: np.ndarray) -> float:
        """Sum of squared residuals."""
        return self._pass(parameters, True, False)[0]

    def rmse(self, parameters: np.ndarray) -> float:
        """Root of the mean squared residual, in pixel values."""
        return float(np.sqrt(self.loss(parameters) / (self.data.sites * self.outputs)))

    def loss_grad(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and half its gradient."""
        return self._pass(parameters, True, True)

    def normal_product(self, direction: np.ndarray) -> tuple[float, np.ndarray]:
        """|J d|^2 and J'J d, J being the derivative of the predictions by the entries."""
        return self._pass(direction, False, True)

    def squares(self) -> np.ndarray:
        """Diagonal of J'J, repeated for all outputs of a row."""
        if not self._native:
            sums = numpy_path.squares(self.layouts, self.data, self.gain)
            return np.repeat(np.concatenate(sums), self.outputs)
        rows = np.empty(self.size // self.outputs, np.float32)
        self._check(self._library.twf_squares(self._problem, self._set, self.gain, _floats(rows)))
        return np.repeat(rows, self.outputs)

    def _pass(self, vector: np.ndarray, with_target: bool, with_gradient: bool) -> tuple[float, np.ndarray]:
        vector = np.ascontiguousarray(vector, np.float32)
        if vector.shape != (self.size,):
            raise UsageError(f"{vector.shape} parameters for tables with {self.size} entries")
        if not self._native:
            offset = self.offset if with_target else None
            tables = self.split(vector)
            loss, parts = numpy_path.fit_pass(
                self.layouts, self.data, tables, self.gain, offset, with_gradient
            )
            return loss, self.join(parts) if parts else np.empty(0, np.float32)
        gradient = np.empty(self.size if with_gradient else 0, np.float32)
        loss = ctypes.c_double()
        status = self._library.twf_fit_pass(
            self._problem, self._set, _floats(vector), self.gain, self.offset, int(with_target),
            ctypes.byref(loss), _floats(gradient) if with_gradient else None,
        )  # fmt: skip
        self._check(status)
        return loss.value, gradient

    def _check(self, status: int) -> None:
        if status < 0:
            raise EngineError(f"fitting: {self._library.twf_error().decode()}", stage="fit")

    def _describe(self) -> tuple[native.Problem, list[Any]]:
        terms = (native.Term * len(self.layouts))()
        keep: list[Any] = [terms, self.data]
        for term, layout, start in zip(terms, self.layouts, self.starts):
            term.axes, term.nodes, term.units = layout.axes, layout.grid.nodes, layout.grid.step
            term.near, term.width, term.thin = layout.near, layout.width, layout.thin
            term.denominator = layout.grid.step * layout.thin
            term.weight, term.start = 1 / term.denominator, start
            if layout.width:
                keep.append(layout.map)
                term.band_rows = len(layout.cells)
                term.map = layout.map.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        numbered = [(r, t) for r in range(4) for t in range(len(self.layouts))]
        lookups = (native.Lookup * len(numbered))()
        for lookup, (r, t) in zip(lookups, numbered):
            layout = self.layouts[t]
            lookup.term, lookup.rotation = t, r
            cell = layout.cell
            for k, offset in enumerate(layout.offsets):
                dy, dx = turn(offset, r, cell)
                plane = layout.planes[k] if layout.planes else 0
                lookup.plane[k] = plane * cell * cell + dy % cell * cell + dx % cell
                lookup.dy[k], lookup.dx[k] = dy // cell, dx // cell
        planes = max(lookup.plane[k] for lookup in lookups for k in range(4))
        images = (native.Image * len(self.data.images))()
        border = self.data.border
        for image, source, target in zip(images, self.data.images, self.data.targets):
            if planes >= len(source):
                raise UsageError("a tap reads a plane that the sites do not have")
            image.plane_stride, image.row_stride = source.strides[0], source.strides[1]
            image.planes = source.ctypes.data + border * (source.strides[1] + 1)
            image.rows, image.columns = target.shape[:2]
            image.target = target.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        keep += [lookups, images]
        problem = native.Problem(
            terms, lookups, images, len(terms), len(lookups), len(images), self.size, 1, self.data.upscale, 0,
            self.threads,
        )  # fmt: skip
        return problem, keep


def _floats(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
