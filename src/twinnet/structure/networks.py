"""Compare two networks: inputs, outputs and layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twinnet.errors import UsageError
from twinnet.extras import optional_packages
from twinnet.layers.graph import Graph
from twinnet.result import fact
from twinnet.signature import dims
from twinnet.structure.change import Change, Kind, StructureDiff
from twinnet.structure.graphs import compare_graphs

if TYPE_CHECKING:
    from twinnet.network import Network
    from twinnet.signature import Signature, TensorSpec

__all__ = ["diff", "graph_of"]


@optional_packages()
def diff(
    a: Any, b: Any, *, shapes: Mapping[str, tuple[int, ...]] | None = None, trust: bool = False
) -> StructureDiff:
    """Compare two networks of any readable format: modules, exported programs, ONNX and TFLite files, lookup tables.

    `trust` lets code in a .pt2 file run.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    >>> other = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.SiLU())
    >>> _ = other.load_state_dict(net.state_dict())
    >>> [c.sentence for c in diff((net, torch.ones(1, 4)), (other, torch.ones(1, 4))).changes]
    ['1: A has relu, B has silu']
    """
    from twinnet.network import load_network

    loaded = load_network(a, shape=shapes, trust=trust), load_network(b, shape=shapes, trust=trust)
    own = next((found for side in loaded if (found := side.compared(*loaded)) is not None), None)
    if own is not None:
        return own
    one, other = loaded
    graph_a, graph_b = graph_of(one), graph_of(other)
    found = compare_graphs(graph_a, graph_b)
    changes = (
        *_ends("input", one.signature.inputs, other.signature.inputs),
        *_outputs(graph_a, graph_b, one.signature, other.signature),
        *found.changes,
    )
    return StructureDiff(
        one.name,
        other.name,
        found.layers_a,
        found.layers_b,
        found.matched,
        one.parameters,
        other.parameters,
        tuple(changes),
        found.notes,
    )


def graph_of(loaded: Network) -> Graph:
    """The layers of a network; a UsageError for a module of unknown shapes, an EngineError if it has no export."""
    from twinnet.inputs import load_inputs

    if loaded.format == "ONNX":
        from twinnet.onnx.network import OnnxNetwork
        from twinnet.onnx.read import read_onnx

        assert isinstance(loaded, OnnxNetwork)
        return read_onnx(loaded.model, weights=loaded.weights())
    if loaded.format == "TFLite":
        from twinnet.pairing.quantised import folded
        from twinnet.tflite.network import TfliteNetwork
        from twinnet.tflite.read import read_tflite
        from twinnet.tflite.view import View

        assert isinstance(loaded, TfliteNetwork)
        return folded(read_tflite(loaded.model, View(loaded.model.main)))
    from twinnet.layers.read_fx import read_fx
    from twinnet.network import ModuleNetwork

    if not isinstance(loaded, ModuleNetwork):
        raise UsageError(f"the layers of a network of format {loaded.format} cannot be listed")
    if any(i.dynamic for i in loaded.signature.inputs):
        raise UsageError(
            f"the input shapes of {loaded.name} are unknown",
            hint="give --shape, or return example inputs from the factory",
        )
    sample = load_inputs(loaded.signature, (), samples=1, bounds=loaded.bounds()).samples[0]
    return read_fx(loaded.program_for(sample, called=loaded.name))


def _ends(kind: Kind, a: Sequence[TensorSpec], b: Sequence[TensorSpec]) -> list[Change]:
    if len(a) != len(b):
        names = {"a": tuple(s.name for s in a), "b": tuple(s.name for s in b)}
        return [Change(kind, "", fact("structure.ends", kind=kind, **names), len(a), len(b))]
    found = []
    for one, other in zip(a, b, strict=True):
        if one.dtype != other.dtype or not _fits(one.shape, other.shape):
            ours, theirs = (f"{spec.dtype} {dims(spec.shape)}" for spec in (one, other))
            told = fact("structure.replaced", place=one.name, a=ours, b=theirs)
            found.append(Change(kind, one.name, told, ours, theirs))
    return found


def _outputs(graph_a: Graph, graph_b: Graph, sig_a: Signature, sig_b: Signature) -> list[Change]:
    a, b = graph_a.outputs, graph_b.outputs
    if len(a) != len(b):
        told = fact("structure.ends", kind="output", a=tuple(a), b=tuple(b))
        return [Change("output", "", told, len(a), len(b))]
    declared_a = {o.name: o.shape for o in sig_a.outputs}
    declared_b = {o.name: o.shape for o in sig_b.outputs}
    found = []
    for one, other in zip(a, b, strict=True):
        ours = graph_a.shapes.get(one, declared_a.get(one))
        theirs = graph_b.shapes.get(other, declared_b.get(other))
        if not _fits(ours, theirs):
            told = fact("structure.replaced", place=one, a=dims(ours), b=dims(theirs))
            found.append(Change("output", one, told, dims(ours), dims(theirs)))
    return found


def _fits(a: Sequence[int | str] | None, b: Sequence[int | str] | None) -> bool:
    """Whether two declared shapes can be the same; an unnamed or free dimension fits any."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        m == n for m, n in zip(a, b, strict=True) if isinstance(m, int) and isinstance(n, int)
    )
