"""What building a twin costs, and what each layer should take before anything has run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from twinnet.layers.graph import Graph, Layer
from twinnet.profile.cost import Shapes, float_width, flops, moved_bytes
from twinnet.profile.model import Limit
from twinnet.profile.target import Target
from twinnet.signature import dims

if TYPE_CHECKING:
    from twinnet.engines.base import Session

__all__ = ["CompileProfile", "Estimate", "built", "estimates"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One layer of the network: what it computes and moves, and how long that should take on the target.

    `by` says who estimates: "shapes", or "compiler" where the engine's compiler reported a time.
    """

    name: str
    op: str
    module: str
    source: str
    shape: str
    flops: int | None
    bytes: int | None
    seconds: float
    limit: Limit
    by: str = "shapes"


@dataclass(frozen=True)
class CompileProfile:
    """How a twin is built: seconds of each step, and of the compiler's passes where it reports them; sizes of what came
    out; an estimate of each layer."""

    network: str
    spec: str
    engine: str
    version: str
    steps: tuple[tuple[str, float], ...]
    passes: tuple[tuple[str, float], ...]
    size: int | None
    target: Target
    estimates: tuple[Estimate, ...]
    schema: int = 1

    @property
    def seconds(self) -> float:
        """The estimate of a whole run."""
        return sum(one.seconds for one in self.estimates)

    def to_json(self) -> str:
        """The text of compile.json."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def estimates(
    graph: Graph | None,
    shapes: Shapes,
    target: Target,
    width: int = 4,
    told: Mapping[str, float] | None = None,
    shown: Collection[str] = (),
) -> tuple[Estimate, ...]:
    """Every layer that depends on an input, by its shapes.

    `told` are times that a compiler reported, by the name of a node or of what it makes. `shown` are the values
    that the twin has, too: a layer whose value it does not have is part of what comes after it.
    """
    if graph is None:
        return ()
    found = _reported(graph, shapes, told or {}, shown)
    return tuple(
        _estimate(graph, layer, shapes, target, width, found.get(index))
        for index, layer in enumerate(graph.layers)
        if layer.outputs[0] not in graph.static
    )


def _reported(
    graph: Graph, shapes: Shapes, told: Mapping[str, float], shown: Collection[str]
) -> dict[int, float]:
    """Seconds of layers by the compiler's report: of a node, those of the layer that computes most; of the others 0."""
    found: dict[int, float] = {}
    for name, seconds in told.items():
        ends = [i for i, layer in enumerate(graph.layers) if name in (layer.node, *layer.outputs)]
        made = [made for i in ends for made in graph.layers[i].outputs if made]
        fused = graph.segment(made, {*shown, *told})[0] if shown else ends
        parts = [i for i in fused if i not in found and graph.layers[i].outputs[0] not in graph.static]
        found.update(dict.fromkeys(parts, 0.0))
        if parts:
            found[max(parts, key=lambda i: flops(graph.layers[i], shapes) or 0)] = seconds
    return found


def _estimate(
    graph: Graph, layer: Layer, shapes: Shapes, target: Target, width: int, known: float | None
) -> Estimate:
    work, moved = flops(layer, shapes), moved_bytes(graph, (layer,), shapes, width)
    seconds = target.seconds(work or 0, moved or 0)
    limit: Limit = ""
    if work is not None and moved is not None:
        limit = "compute" if work / target.peak > moved / target.bandwidth else "memory"
        if target.overhead > 0.5 * seconds:
            limit = "overhead"
    name = layer.outputs[0]
    return Estimate(
        name,
        layer.op or layer.kind,
        layer.module,
        layer.source,
        dims(shapes[name]) if name in shapes else "",
        work,
        moved,
        seconds if known is None else known,
        limit if known is None else "",
        "shapes" if known is None else "compiler",
    )


def built(
    session: Session,
    timings: Mapping[str, float],
    network: tuple[str, str],
    graph: Graph | None,
    shapes: Shapes,
    target: Target,
) -> CompileProfile:
    """The compile profile of a session that was just built; `network` is its name and the twin's spec."""
    steps = tuple((name, seconds) for name, seconds in timings.items() if name not in ("run", "judge"))
    told = session.estimates()
    twin = session.graph() if told else None
    shown = () if twin is None else twin.producer
    rows = estimates(graph, shapes, target, float_width(session.precision), told, shown)
    return CompileProfile(
        *network, session.engine, session.version, steps, session.passes(), session.size, target, rows
    )
