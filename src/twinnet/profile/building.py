"""What building a twin costs, and what each layer should take before anything has run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from twinnet.engines.timing import LayerTime, Span
from twinnet.layers.graph import Graph, Layer
from twinnet.profile.cost import Shapes, float_width, flops, moved_bytes
from twinnet.profile.join import Joiner
from twinnet.profile.model import Limit
from twinnet.profile.target import Target
from twinnet.signature import dims

if TYPE_CHECKING:
    from twinnet.engines.base import Session

__all__ = ["CompileProfile", "Estimate", "built", "estimates", "reported"]


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
    """How a twin is built: seconds of each step, and of the compiler's passes where it reports them; the size of what
    ships, and of what is `intermediate`; an estimate of each layer."""

    network: str
    spec: str
    engine: str
    version: str
    steps: tuple[tuple[str, float], ...]
    passes: tuple[tuple[str, float], ...]
    size: int | None
    target: Target
    estimates: tuple[Estimate, ...]
    intermediate: tuple[tuple[str, int], ...] = ()
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
    told: Mapping[int, float] | None = None,
) -> tuple[Estimate, ...]:
    """Every layer that depends on an input, by its shapes; `told` are seconds of layers that are known better."""
    if graph is None:
        return ()
    return tuple(
        _estimate(graph, layer, shapes, target, width, (told or {}).get(index))
        for index, layer in enumerate(graph.layers)
        if layer.outputs[0] not in graph.static
    )


def reported(
    graph: Graph, shapes: Shapes, told: Mapping[str, float], twin: Graph, origins: Mapping[str, str]
) -> dict[int, float]:
    """Seconds of the network's layers by what a compiler reported of the twin's nodes, by name or by what they make.

    The layer that computes most of a node has its time, the others have none of their own. `origins` maps values of the
    twin to those of the network, where their names differ.
    """
    last = {layer.node: index for index, layer in enumerate(twin.layers) if layer.node}
    seconds: list[float | None] = []
    for index, layer in enumerate(twin.layers):
        names = (*layer.outputs, layer.node if last.get(layer.node) == index else "")
        seconds.append(next((told[name] for name in names if name in told), None))
    steps = [
        LayerTime(layer.outputs[0], layer.op, (Span(0, spent or 0.0),), tuple(filter(None, layer.outputs)))
        for layer, spent in zip(twin.layers, seconds)
    ]
    pairs = {name: origins.get(name, name) for name in twin.producer}
    pairs = {name: ours for name, ours in pairs.items() if ours in graph.producer}
    places = {id(layer): index for index, layer in enumerate(graph.layers)}
    found: dict[int, float] = {}
    joined = list(zip(Joiner(graph, pairs, twin).join(steps), seconds))
    # What only helps is added to a layer that has a time of its own, and says too little about any other.
    for one, spent in sorted(joined, key=lambda pair: pair[0].helps):
        if spent is None or not one.layers:
            continue
        main = places[id(max(one.layers, key=lambda layer: flops(layer, shapes) or 0))]
        if not one.helps:
            found.update({places[id(layer)]: 0.0 for layer in one.layers})
        if main in found:
            found[main] += spent
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
    said, origins = session.estimates(), session.provenance or {}
    told = reported(graph, shapes, said, session.graph() or graph, origins) if said and graph else None
    rows = estimates(graph, shapes, target, float_width(session.precision), told)
    size, passes, artefact = session.size, session.passes(), session.artefact
    whole = () if artefact is None or artefact.size == size else (("ONNX model", artefact.size),)
    return CompileProfile(
        *network, session.engine, session.version, steps, passes, size, target, rows, intermediate=whole
    )
