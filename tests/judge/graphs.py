"""Small canonical graphs with a twin whose tensors a test can bend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from twinnet.judge.born import BornTest
from twinnet.judge.verdicts import Born
from twinnet.layers import evaluate
from twinnet.layers.graph import Graph, Layer
from twinnet.pairing import Pair
from twinnet.site import Site

__all__ = ["UNIT", "Bench", "chain"]

UNIT = 2.0**-24


def chain(*layers: Layer, constants: Mapping[str, torch.Tensor] | None = None) -> Graph:
    """Layers after each other; the last one's first output is the graph's."""
    made = {o for layer in layers for o in layer.outputs}
    known = set(constants or {})
    inputs = tuple(
        dict.fromkeys(n for layer in layers for n in layer.inputs if n and n not in made and n not in known)
    )
    return Graph(layers, inputs, (layers[-1].outputs[0],), dict(constants or {}))


class Bench:
    """A graph, an input, and the twin's trace: by default each value as float32 arithmetic gives it."""

    def __init__(self, graph: Graph, inputs: Mapping[str, np.ndarray], paired: tuple[str, ...] | None = None):
        self.graph = graph
        self.sample = {n: np.asarray(v) for n, v in inputs.items()}
        names = [o for layer in graph for o in layer.outputs if o]
        self.paired = paired or tuple(names)
        self.exact: dict[str, torch.Tensor] = {}
        values = {n: torch.from_numpy(v.copy()) for n, v in self.sample.items()}
        found = evaluate(graph, values, keep=names)
        self.twin: dict[str, np.ndarray] = {}
        for name, value in found.items():
            self.twin[name] = (value.float() if value.dtype == torch.float64 else value).numpy().copy()

        self.network = {name: value.copy() for name, value in self.twin.items()}

    def recompute(self, *names: str) -> None:
        """The twin goes on from what it holds: these values follow from the ones before, in float32."""
        for name in names:
            known = [n for n in (*self.sample, *self.twin) if n not in names[names.index(name) :]]
            layers, frontier = self.graph.segment([name], [n for n in known if n != name])
            values = {n: torch.from_numpy(np.array(self.twin.get(n, self.sample.get(n)))) for n in frontier}
            value = evaluate(self.graph, values, layers=layers, keep=[name])[name]
            self.twin[name] = (value.float() if value.dtype == torch.float64 else value).numpy().copy()

    def judge(self, unit: float = UNIT, **options: Any) -> dict[str, Born]:
        """Every pair judged, by name."""
        pairs = [Pair(Site(n), Site(n), "provenance") for n in self.paired]
        inputs = {name: name for name in self.graph.inputs}
        test = BornTest(self.graph, pairs, unit=unit, inputs=inputs, **options)
        judge = test.on(self.sample, self.network, self.twin)
        return {p.site.tensor: judge(p) for p in pairs}
