"""Any twin of a table network, seen as the network sees itself: its sites, in pixel units, one axis for the planes.

Tables run elsewhere use their own units. Whole numbers at a site are numerators, as integer executors record
them; floats are in pixel units. A whole-number output holds pixels, a float one is in [0, 1] like the image. A network
that takes uint8 [planes, rows, columns] (`twinnet lut onnx`) is given that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

import numpy as np

from twinnet.engines.base import Session
from twinnet.job import Arrays
from twinnet.lut.onnx import PAYLOAD_LAST
from twinnet.lut.plan import Plan
from twinnet.lut.plan import sites as plan_sites
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

__all__ = ["TableView", "planes_of"]


def planes_of(inputs: Arrays) -> np.ndarray:
    """The 8-bit planes a table network reads: images in [0, 1] of [batch, colours, rows, columns]."""
    from twinnet.errors import UsageError

    if len(inputs) != 1:
        raise UsageError(f"a LUT network has one input, not {len(inputs)}")
    image = np.asarray(next(iter(inputs.values())))
    if image.ndim != 4:
        raise UsageError(f"a LUT network takes [batch, colours, rows, columns], not {list(image.shape)}")
    pixels = image if image.dtype == np.uint8 else np.rint(np.clip(image, 0, 1).astype(np.float64) * 255)
    return pixels.reshape(-1, *image.shape[2:]).astype(np.uint8)


class TableView(Session):
    """A twin of the tables of `plan`, whatever runs it."""

    def __init__(self, twin: Session, plan: Plan, names: Collection[str]) -> None:
        self.twin = twin
        self.engine, self.version, self.precision = twin.engine, twin.version, twin.precision
        self.loose_outputs = twin.loose_outputs
        self.signature, self.notes, self.live = twin.signature, twin.notes, twin.live
        self.scales = {s.name: 1.0 / s.denominator for s in plan_sites(plan)}
        self._channels = plan.channels
        self._names = tuple(names)
        declared = twin.signature.inputs
        takes = declared[0] if len(declared) == 1 else None
        # As the twin itself has them, for what is given back to it.
        self._dtypes: dict[str, np.dtype] = {}
        self._as_planes = takes is not None and takes.dtype == "uint8" and len(takes.shape or ()) == 3

    @property
    def inputs(self) -> Mapping[str, str]:
        return {name: name for name in self._names}

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self.twin.output_tensors[:1]

    @property
    def random(self) -> str:
        return self.twin.random

    @cached_property
    def sites(self) -> tuple[Site, ...]:  # type: ignore[override]
        outputs = self.output_tensors
        return tuple(
            Site(
                self._site(s.tensor), s.node, "", s.module, role="output" if s.tensor in outputs else "inner"
            )
            for s in self.twin.sites
            if s.tensor in outputs or self._site(s.tensor) in self.scales
        )

    @staticmethod
    def _site(tensor: str) -> str:
        return tensor.removesuffix(PAYLOAD_LAST)

    def _given(self, inputs: Arrays) -> Arrays:
        return {next(iter(inputs)): planes_of(inputs)} if self._as_planes else inputs

    def _pixels(self, tensor: str, array: np.ndarray) -> np.ndarray:
        site = self._site(tensor)
        if tensor in self.output_tensors and site not in self.scales:
            scale = 255.0 if np.issubdtype(array.dtype, np.floating) else 1.0
            # Colours are planes of their own.
            return array.astype(np.float64).reshape(-1, self._channels, *array.shape[-2:]) * scale
        if tensor.endswith(PAYLOAD_LAST):
            array = array.transpose(0, 3, 1, 2)
        scale = 1.0 if np.issubdtype(array.dtype, np.floating) else self.scales[site]
        return array.astype(np.float64) * scale

    def own_form(self, tensor: str, pixels: np.ndarray) -> np.ndarray:
        """A tensor as the twin itself had it, from pixel units."""
        site, dtype = self._site(tensor), self._dtypes[tensor]
        scale = 1.0 if np.issubdtype(dtype, np.floating) else self.scales[site]
        own = pixels.transpose(0, 2, 3, 1) if tensor.endswith(PAYLOAD_LAST) else pixels
        return (own if scale == 1.0 else np.rint(own / scale)).astype(dtype)

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        tensors = {self._site(t): t for t in self._dtypes}
        # Behind an output that is no site there is nothing.
        before = {t: s for s, t in tensors.items() if s in known and s in self.scales and s != tensor}
        given = self._given({name: np.asarray(values[name]) for name in self._names})
        image = {self.twin.inputs.get(name, name): array for name, array in given.items()}
        own = tensors.get(tensor, tensor)
        found = self.twin.part(own, [*before, *image], _Own(self, image, before, values))
        return self._pixels(own, found)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        found = self.twin.run(self._given(inputs))
        if not self.output_tensors:
            return {}
        tensor = self.output_tensors[0]
        name = tensor if tensor in found else next(iter(found))
        return {name: self._pixels(tensor, np.asarray(found[name]))}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        wanted = {s.tensor: self._site(s.tensor) for s in self.twin.sites}
        taken = {t for t, site in wanted.items() if site in watch or t in self.output_tensors}
        for name, array in inputs.items():
            builder.add(name, np.asarray(array))
        seen = self.twin.trace(self._given(inputs), taken, TraceBuilder())
        for tensor in taken:
            if tensor in seen:
                self._dtypes[tensor] = np.asarray(seen[tensor]).dtype
                builder.add(wanted[tensor], self._pixels(tensor, np.asarray(seen[tensor])))
        seen.close()
        return builder.done()

    def close(self) -> None:
        self.twin.close()


class _Own(Mapping[str, np.ndarray]):
    """What a twin is given back: its inputs, and the sites of a trace in its own form, made when asked for."""

    def __init__(self, view: TableView, inputs: Arrays, sites: Mapping[str, str], trace: Arrays) -> None:
        self._view, self._inputs, self._sites, self._trace = view, inputs, sites, trace

    def __getitem__(self, tensor: str) -> np.ndarray:
        if tensor in self._inputs:
            return self._inputs[tensor]
        return self._view.own_form(tensor, np.asarray(self._trace[self._sites[tensor]]))

    def __iter__(self) -> Iterator[str]:
        return iter((*self._inputs, *self._sites))

    def __len__(self) -> int:
        return len(self._inputs) + len(self._sites)
