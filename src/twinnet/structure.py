"""Two networks side by side without running them: layers, attributes, weights, inputs and outputs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from twinnet.errors import EngineError, UsageError
from twinnet.layers.graph import Graph, Layer
from twinnet.pairing.layers import LayerMatch
from twinnet.report.figures import grouped

if TYPE_CHECKING:
    import torch

    from twinnet.network import Network
    from twinnet.signature import Signature, TensorSpec

__all__ = ["Change", "StructureDiff", "compare_graphs", "diff", "not_the_same", "render"]

Kind = Literal["input", "output", "only in A", "only in B", "replaced", "attribute", "weight"]

_SHOWN = 12
_FOLDED = 2.0**-18
_OPERANDS: Mapping[str, tuple[str, ...]] = {
    "conv": ("input", "weight", "bias"),
    "conv_transpose": ("input", "weight", "bias"),
    "linear": ("input", "weight", "bias"),
    "gemm": ("a", "b", "c"),
    "batch_norm": ("input", "scale", "bias", "mean", "variance"),
    "layer_norm": ("input", "scale", "bias"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs: where, and what it is on either side."""

    kind: Kind
    place: str
    sentence: str
    a: Any = None
    b: Any = None


@dataclass(frozen=True)
class StructureDiff:
    """What differs between networks A and B; `matched` layers stand in the same place of both."""

    a: str
    b: str
    layers_a: int
    layers_b: int
    matched: int
    parameters_a: int = 0
    parameters_b: int = 0
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.changes

    @property
    def exit_code(self) -> int:
        """0 the same, 1 different."""
        return 0 if self.same else 1

    def to_json(self) -> str:
        """Machine-readable form."""
        from twinnet.report.json_file import plain

        return json.dumps(plain({"same": self.same, **asdict(self)}), indent=1)

    def __repr__(self) -> str:
        return render(self)


def diff(a: Any, b: Any, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> StructureDiff:
    """Compare two networks of any readable format: modules, exported programs, ONNX files, lookup tables.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    >>> other = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.SiLU())
    >>> _ = other.load_state_dict(net.state_dict())
    >>> [c.sentence for c in diff((net, torch.ones(1, 4)), (other, torch.ones(1, 4))).changes]
    ['1: A has relu, B has silu']
    """
    from twinnet.network import load_network
    from twinnet.structure_tables import compare_tables, plans_of

    loaded = load_network(a, shape=shapes), load_network(b, shape=shapes)
    plans = plans_of(*loaded)
    if plans is not None:
        return compare_tables((loaded[0].name, loaded[1].name), plans)
    sides = [_load(network) for network in loaded]
    (name_a, graph_a, sig_a, n_a), (name_b, graph_b, sig_b, n_b) = sides
    found = compare_graphs(graph_a, graph_b)
    changes = (
        *_ends("input", sig_a.inputs, sig_b.inputs),
        *_outputs(graph_a, graph_b, sig_a, sig_b),
        *found.changes,
    )
    return StructureDiff(
        name_a, name_b, found.layers_a, found.layers_b, found.matched, n_a, n_b, tuple(changes), found.notes
    )


def _load(loaded: Network) -> tuple[str, Graph, Signature, int]:
    from twinnet.inputs import load_inputs
    from twinnet.network import OnnxNetwork

    if isinstance(loaded, OnnxNetwork):
        from twinnet.layers.read_onnx import read_onnx

        return (
            loaded.name,
            read_onnx(loaded.model, weights=loaded.weights()),
            loaded.signature,
            loaded.parameters,
        )
    from twinnet.layers.read_fx import read_fx

    if any(i.dynamic for i in loaded.signature.inputs):
        raise UsageError(
            f"the input shapes of {loaded.name} are not known",
            hint="give --shape, or return example inputs from the factory",
        )
    sample = load_inputs(loaded.signature, (), samples=1, bounds=loaded.bounds()).samples[0]
    program = loaded.exported(sample)  # type: ignore[attr-defined]
    if program is None:
        raise EngineError(
            f"torch.export could not export {loaded.name}: {loaded.export_error}",  # type: ignore[attr-defined]
            stage="export",
        )
    return loaded.name, read_fx(program), loaded.signature, loaded.parameters


# -- inputs and outputs ------------------------------------------------------------------------------------------


def _ends(kind: Kind, a: Sequence[TensorSpec], b: Sequence[TensorSpec]) -> list[Change]:
    if len(a) != len(b):
        said = f"A has {_count(len(a), kind)} ({_names(a)}), B has {len(b)} ({_names(b)})"
        return [Change(kind, "", said, len(a), len(b))]
    found = []
    for one, other in zip(a, b, strict=True):
        if one.dtype != other.dtype or not _fits(one.shape, other.shape):
            ours, theirs = _spec_words(one.shape, one.dtype), _spec_words(other.shape, other.dtype)
            found.append(Change(kind, one.name, f"{one.name}: A has {ours}, B has {theirs}", ours, theirs))
    return found


def _outputs(graph_a: Graph, graph_b: Graph, sig_a: Signature, sig_b: Signature) -> list[Change]:
    a, b = graph_a.outputs, graph_b.outputs
    if len(a) != len(b):
        said = f"A has {_count(len(a), 'output')} ({', '.join(a)}), B has {len(b)} ({', '.join(b)})"
        return [Change("output", "", said, len(a), len(b))]
    declared_a = {o.name: o.shape for o in sig_a.outputs}
    declared_b = {o.name: o.shape for o in sig_b.outputs}
    found = []
    for one, other in zip(a, b, strict=True):
        ours = graph_a.shapes.get(one, declared_a.get(one))
        theirs = graph_b.shapes.get(other, declared_b.get(other))
        if not _fits(ours, theirs):
            said = f"{one}: A has {_dims(ours)}, B has {_dims(theirs)}"
            found.append(Change("output", one, said, _dims(ours), _dims(theirs)))
    return found


def _fits(a: Sequence[int | str] | None, b: Sequence[int | str] | None) -> bool:
    """Whether two declared shapes can be the same; an unnamed or free dimension fits any."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        m == n for m, n in zip(a, b, strict=True) if isinstance(m, int) and isinstance(n, int)
    )


# -- layers ------------------------------------------------------------------------------------------------------


def compare_graphs(a: Graph, b: Graph) -> StructureDiff:
    """Match the layers of two graphs, then compare attributes and weights of those that match.

    >>> one = Graph((Layer("relu", ("x",), ("y",)),), ("x",), ("y",))
    >>> two = Graph((Layer("softplus", ("in",), ("out",), {"beta": 1.0}),), ("in",), ("out",))
    >>> compare_graphs(one, two).changes[0].sentence
    'y: A has relu, B has softplus'
    """
    plain = _compared(a, b)
    if all(c.kind in ("attribute", "weight") for c in plain.changes) and not _reshaped(plain):
        return plain
    from twinnet.layers.simplify import simplified

    # Different files may write one computation in different ways; what is left then really differs.
    found = _compared(simplified(a), simplified(b))
    if len(found.changes) >= len(plain.changes):
        return plain
    note = "compared after batch norm was folded into the layer before it and x * sigmoid(x) was joined"
    return replace(found, layers_a=len(a), layers_b=len(b), notes=(note,))


def _reshaped(found: StructureDiff) -> bool:
    return any(c.kind == "weight" and c.a is not None for c in found.changes)


def _compared(a: Graph, b: Graph) -> StructureDiff:
    match = LayerMatch(a, b)
    changes: list[Change] = []
    for index, layer in enumerate(a.layers):
        partner = match.partner.get(index)
        if partner is None:
            changes.append(
                Change("only in A", _place(layer), f"{_place(layer)} {_op(layer)} is only in A", _op(layer))
            )
            continue
        other = b.layers[partner]
        if layer.kind != other.kind:
            ours, theirs = layer.op or layer.kind, other.op or other.kind
            said = f"{_place(layer)}: A has {ours}, B has {theirs}"
            changes.append(Change("replaced", _place(layer), said, ours, theirs))
            continue
        changes += _attributes(layer, other, a, b)
        changes += _weights(layer, other, a, b)
    taken = set(match.partner.values())
    for index, layer in enumerate(b.layers):
        if index not in taken:
            changes.append(
                Change(
                    "only in B", _place(layer), f"{_place(layer)} {_op(layer)} is only in B", None, _op(layer)
                )
            )
    return StructureDiff("A", "B", len(a), len(b), len(match.partner), changes=tuple(changes))


def _attributes(layer: Layer, other: Layer, a_graph: Graph, b_graph: Graph) -> list[Change]:
    found = []
    shape = a_graph.shapes.get(layer.outputs[0]) or b_graph.shapes.get(other.outputs[0])
    for name in dict.fromkeys((*layer.attrs, *other.attrs)):
        a, b = layer.attrs.get(name), other.attrs.get(name)
        if callable(a) or callable(b) or name == "random" or _equal(a, b):
            continue
        if (
            name == "axis"
            and shape
            and isinstance(a, int)
            and isinstance(b, int)
            and (a - b) % len(shape) == 0
        ):
            continue
        said = f"{_place(layer)} {_op(layer)}: {name} is {_value(a)} in A, {_value(b)} in B"
        found.append(Change("attribute", _place(layer), said, _value(a), _value(b)))
    return found


def _weights(layer: Layer, other: Layer, a: Graph, b: Graph) -> list[Change]:
    found = []
    roles = _OPERANDS.get(layer.kind, ())
    for index, (ours, theirs) in enumerate(zip(layer.inputs, other.inputs, strict=False)):
        x = a.constants.get(ours) if ours is not None else None
        y = b.constants.get(theirs) if theirs is not None else None
        if x is None and y is None:
            continue
        role = roles[index] if index < len(roles) else ours or theirs or f"operand {index}"
        place = f"{_place(layer)} {_op(layer)}"
        if x is None or y is None:
            have, lack = ("A", "B") if y is None else ("B", "A")
            said = f"{place}: {role} is a constant in {have} and not in {lack}"
            found.append(Change("weight", _place(layer), said))
        elif tuple(x.shape) != tuple(y.shape):
            said = f"{place}: {role} is {_dims(x.shape)} in A, {_dims(y.shape)} in B"
            found.append(Change("weight", _place(layer), said, _dims(x.shape), _dims(y.shape)))
        else:
            said = _numbers(x, y)
            if said:
                found.append(
                    Change("weight", _place(layer), f"{place}: {role} {_dims(x.shape)} differs {said}")
                )
    return found


def _numbers(x: torch.Tensor, y: torch.Tensor) -> str:
    """By how much two weights of one shape differ, in how many elements, and in which channels."""
    import torch

    if x.dtype == y.dtype and torch.equal(x, y):
        return ""
    floats = x.is_floating_point() or y.is_floating_point()
    left, right = (x.double(), y.double()) if floats else (x.long(), y.long())
    wrong = left != right
    if floats:
        wrong &= ~(left.isnan() & right.isnan())
        if torch.float64 in (x.dtype, y.dtype):
            # Folded here in float64, there in float32: that much rounding is no difference.
            wrong &= (left - right).abs() > _FOLDED * torch.maximum(left.abs().max(), right.abs().max())
    count = int(wrong.sum())
    if not count:
        wide = torch.float64 in (x.dtype, y.dtype) or x.dtype == y.dtype
        return "" if wide else f"in type: {x.dtype} in A, {y.dtype} in B".replace("torch.", "")
    largest = float((left - right).abs().max())
    share = f"{count} of {x.numel()} elements"
    return f"by up to {largest:.3g} in {share}{_channels(wrong)}"


def _channels(wrong: torch.Tensor) -> str:
    """The axis along which the difference is confined most, where it is."""
    best: tuple[float, int, list[int]] | None = None
    for axis in range(wrong.dim()):
        rest = [d for d in range(wrong.dim()) if d != axis]
        hit = (wrong.any(dim=tuple(rest)) if rest else wrong).nonzero().flatten().tolist()
        share = len(hit) / wrong.shape[axis]
        if share < 1 and (best is None or share < best[0]):
            best = (share, axis, hit)
    if best is None:
        return ""
    _, axis, hit = best
    places = ", ".join(map(str, hit[:6])) + ("..." if len(hit) > 6 else "")
    return f", all at index {places} of axis {axis} ({len(hit)} of {wrong.shape[axis]})"


# -- not the same network ----------------------------------------------------------------------------------------


def not_the_same(a: Graph, b: Graph, *, limit: int = 3) -> str:
    """Why two graphs cannot be the same network, in a sentence; empty if they can be.

    They cannot where weights that surely stand in the same place have other sizes.

    >>> import torch
    >>> def net(width):
    ...     return Graph((Layer("linear", ("x", "w", None), ("y",)),), ("x",), ("y",), {"w": torch.ones(width, 4)})
    >>> not_the_same(net(8), net(6))
    'y linear: weight is 8x4 in A, 6x4 in B'
    """
    from twinnet.layers.simplify import simplified

    a, b = simplified(a), simplified(b)
    match = LayerMatch(a, b)
    said = []
    for i, j in match.sure.items():
        for change in _weights(a.layers[i], b.layers[j], a, b):
            if change.a is not None and change.b is not None and _volume(change.a) != _volume(change.b):
                said.append(change.sentence)
    if not said:
        return ""
    more = f"; and {len(said) - limit} more weights" if len(said) > limit else ""
    depth = f"; {len(a)} layers in A, {len(b)} in B" if len(a) != len(b) else ""
    return "; ".join(said[:limit]) + more + depth


def _volume(dims: str) -> int:
    return math.prod(int(n) for n in dims.split("x")) if dims != "scalar" else 1


# -- words -------------------------------------------------------------------------------------------------------


def render(found: StructureDiff) -> str:
    """The comparison on one screen."""
    lines = [
        f"A        {found.a} ({grouped(found.layers_a)} layers, {grouped(found.parameters_a)} parameters)",
        f"B        {found.b} ({grouped(found.layers_b)} layers, {grouped(found.parameters_b)} parameters)",
        "",
    ]
    if found.same:
        lines.append(f"SAME     {_count(found.matched, 'layer')}, attributes, weights, inputs and outputs")
        return "\n".join([*lines, *(f"note     {note}" for note in found.notes)])
    lines.append(
        f"DIFFERENT  {_count(len(found.changes), 'difference')}; {_count(found.matched, 'layer')} in the same place"
    )
    # One screen, whatever differs.
    shown = _SHOWN if len(found.changes) <= 24 else _SHOWN // 3
    for kind in ("input", "output", "replaced", "only in A", "only in B", "attribute", "weight"):
        some = [c for c in found.changes if c.kind == kind]
        if some:
            lines += ["", *_listed(kind, some, shown)]
    return "\n".join([*lines, *(f"\nnote     {note}" for note in found.notes)])


def _listed(kind: str, changes: Sequence[Change], shown: int) -> Iterable[str]:
    titles = {"attribute": "attributes", "weight": "weights", "input": "inputs", "output": "outputs"}
    yield titles.get(kind, kind)
    for change in changes[:shown]:
        yield f"  {change.sentence}"
    if len(changes) > shown:
        yield f"  and {len(changes) - shown} more (--json lists all)"


def _place(layer: Layer) -> str:
    return layer.module or layer.node or layer.outputs[0]


def _op(layer: Layer) -> str:
    return layer.kind if layer.kind != "opaque" else layer.op or layer.kind


def _count(n: int, word: str) -> str:
    return f"{n} {word}" + ("" if n == 1 else "s")


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(s.name for s in specs)


def _spec_words(shape: Sequence[int | str] | None, dtype: str) -> str:
    return f"{dtype} {_dims(shape)}"


def _dims(shape: Sequence[int | str] | None) -> str:
    return "any shape" if shape is None else "x".join(map(str, shape)) or "scalar"


def _value(value: Any) -> str:
    if hasattr(value, "tolist") and getattr(value, "ndim", 0):
        return f"a tensor of {_dims(tuple(value.shape))}"
    return str(value).replace("torch.", "")


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None or type(a).__name__ == "Graph" or type(b).__name__ == "Graph":
        return (a is None and b is None) or type(a).__name__ == type(b).__name__ == "Graph"
    if hasattr(a, "shape") or hasattr(b, "shape"):
        import torch

        return torch.equal(torch.as_tensor(a), torch.as_tensor(b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=2.0**-23) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b
