"""What the two graphs say themselves: other attributes, other constants, another operator, one more or one fewer."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.causes._inserted import ACTIVATIONS, group_of, inserted, stated
from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.causes.other_layer import owner
from twinnet.blame.causes.padding import by_axis
from twinnet.blame.problem import Patch, Problem
from twinnet.blame.relations import other_constant, other_parameters
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.simplify import simplified, with_linear_layers, without_copies
from twinnet.result import Fact, fact

_ATTRS = {
    "pads": "padding", "auto_pad": "padding", "strides": "stride", "dilations": "stride", "group": "stride",
    "axis": "axis", "axes": "axis", "exclusive": "axis", "reverse": "axis", "perm": "layout", "eps": "eps",
    "coordinates": "resize", "nearest": "resize", "cubic_a": "resize", "antialias": "resize",
    "exclude_outside": "resize", "align_corners": "resize", "padding": "resize", "kernel": "pooling",
    "ceil_mode": "pooling", "count_include_pad": "pooling", "p": "pooling", "min": "activation",
    "max": "activation", "approximate": "activation", "alpha": "constant", "beta": "constant",
    "gamma": "constant", "groups": "normalisation", "correction": "normalisation", "trans_a": "layout",
    "trans_b": "layout", "block": "layout", "scale": "constant", "is_causal": "attention",
    "direction": "recurrent", "linear_before_reset": "recurrent", "activations": "recurrent",
    "starts": "index", "ends": "index", "index": "index", "qmin": "quantisation", "qmax": "quantisation",
    "equation": "layout",
}  # fmt: skip
_MODE = {
    "resize": "resize",
    "grid_sample": "resize",
    "pad": "padding",
    "depth_to_space": "layout",
    "space_to_depth": "layout",
}
_Operands = tuple[str | None, ...]
_COMMUTES = {"add", "mul", "max", "min", "and", "or", "xor", "equal", "not_equal"}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if problem.twin is None:
        return
    # Copies, such as the moves of a format that turned out to move nothing, are aligned with nothing.
    twin = without_copies(problem.twin)
    if any(layer.kind == "linear" for layer in problem.layers):
        twin = with_linear_layers(twin)
    problem = replace(problem, twin=twin)
    assert problem.twin is not None
    problem, at = _folded(problem)
    ours, theirs = problem.layers, problem.twin.layers if problem.twin else ()
    kinds = [ours[i].kind for i in at]
    match = difflib.SequenceMatcher(a=kinds, b=[x.kind for x in theirs], autojunk=False)
    names: dict[str, str] = {}
    left_out: dict[str, set[str]] = {}
    for what, a, b, c, d in match.get_opcodes():
        if what in ("equal", "replace") and b - a == d - c:
            for i, j in zip(at[a:b], range(c, d)):
                names.update({t: o for o, t in zip(ours[i].outputs, theirs[j].outputs) if t})
                yield from _compare(problem, i, ours[i], theirs[j], names, left_out)
                yield from _folded_norm(problem, i, theirs[j])
        elif what == "delete":
            for i in at[a:b]:
                data = [n for n in ours[i].inputs if n is not None and n not in problem.constants]
                left_out[ours[i].outputs[0]] = {s for n in data for s in left_out.get(n, {n})}
                yield from _dropped(problem, i)
        elif what == "insert":
            yield from inserted(problem, at[a] if a < len(at) else len(ours), theirs[c:d], names)


def _folded(problem: Problem) -> tuple[Problem, list[int]]:
    """Results of layers that read constants only, as constants: converters compute them. And the layers that are left.

    The layers themselves stay, so that a patch counts them as any other does.
    """
    constants = dict(problem.constants)
    left: list[int] = []
    for i, layer in enumerate(problem.layers):
        if layer.inputs and all(n is None or n in constants for n in layer.inputs):
            constants |= {n: _narrow(problem.values[n]) for n in layer.outputs if n}
        else:
            left.append(i)
    return replace(problem, constants=constants), left


def _narrow(value: Any) -> Any:
    return value.to(torch.float32) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _dropped(problem: Problem, i: int) -> Iterator[Candidate]:
    """A layer left out: its reader has one of its operands instead."""
    layer = problem.layers[i]
    places = [p for p, n in enumerate(layer.inputs) if n is not None and n not in problem.constants]
    fixed = [c for p in (0, 1) if isinstance(c := problem.constant(i, p), torch.Tensor)]
    kind, constant = group_of(layer.kind), None
    if fixed and layer.kind in ("add", "sub", "mul", "div", "pow", "max", "min"):
        many = fixed[0].numel() > 1
        kind = (
            {"add": "bias", "sub": "bias", "mul": "scale", "div": "scale"}.get(layer.kind, "constant")
            if many
            else "constant"
        )
        constant = "its constant" if many else float(fixed[0])
    found = fact("operator.left_out", network=layer.kind, twin="nothing", constant=constant)
    for place in places or [0]:
        yield stated(kind, found, lambda p, at=place: p.drop(i, at), 0.75)


def _compare(
    problem: Problem,
    i: int,
    our: Layer,
    their: Layer,
    names: dict[str, str],
    left_out: dict[str, set[str]],
) -> Iterator[Candidate]:
    assert problem.twin is not None
    constants = problem.twin.constants
    inputs = tuple(None if n is None else names.get(n, n) for n in their.inputs)
    if our.kind == their.kind in _COMMUTES and len(inputs) == len(our.inputs) == 2:
        # Another order of these operands changes nothing: they are compared as ours are written.
        fixed = our.inputs[0] in problem.constants, inputs[0] in constants
        if fixed[0] != fixed[1] or inputs == our.inputs[::-1]:
            inputs = inputs[::-1]
    if our.kind != their.kind and their.kind == "identity":
        yield from _dropped(problem, i)
        return
    if our.kind != their.kind and (alike := _same_meaning(problem, i, their, inputs)) is not None:
        was = {place: problem.constants[our.inputs[place] or ""] for place in alike}
        yield from _constants(
            problem, i, {k: (was[k], new) for k, new in alike.items() if _differs(was[k], new)}
        )
        return
    if our.kind != their.kind:
        kind = group_of(our.kind) if group_of(our.kind) == group_of(their.kind) else "operator"
        if {group_of(our.kind), group_of(their.kind)} <= {
            "activation",
            "operator",
        } and our.kind in ACTIVATIONS:
            kind = "activation"
        a, b = our.kind.replace("_", " "), their.kind.replace("_", " ")
        made = replace(their, inputs=inputs, outputs=our.outputs)
        found = fact("operator.another", network=a, twin=b)
        yield stated(kind, found, lambda p: Patch(i, i + 1, (made,), constants), 0.75)
        return
    for name in {*our.attrs, *their.attrs}:
        a, b = our.attrs.get(name), their.attrs.get(name)
        if not _differs(a, b) or callable(a) or callable(b):
            continue
        kind = _MODE.get(our.kind, "operator") if name == "mode" else _ATTRS.get(name, "operator")
        if kind == "pooling" and "pool" not in our.kind:
            kind = "operator"
        if name == "axis" and isinstance(a, int) and isinstance(b, int):  # counted from the same end
            rank = problem.values[our.inputs[0]].dim() if our.inputs[0] is not None else 0
            a, b = (v % rank if rank else v for v in (a, b))
        if name == "scale" and our.kind == "attention":
            width = problem.tensor(i, 0).shape[-1]
            a, b = (width**-0.5 if v is None else v for v in (a, b))
            if math.isclose(a, b, rel_tol=1e-6):
                continue
        yield stated(kind, _attribute(our, name, a, b), lambda p, n=name, v=b: p.set(i, n, v), 0.5)
    varying = [n for n in our.inputs if n is not None and n not in problem.constants]
    theirs = [n for n in inputs if n is not None and n not in constants]
    # Other operands are a cause only if nothing else differs; another order of them may come on top.
    fixed = all(
        not _differs(problem.constants[a], constants[b])
        for a, b in zip(our.inputs, inputs)
        if a is not None and b is not None and a in problem.constants and b in constants
    )
    # What reads across a layer that the twin leaves out reads the same operands.
    across = len(varying) == len(theirs) and all(t in left_out.get(n, {n}) for n, t in zip(varying, theirs))
    turned = sorted(varying) == sorted(theirs) or (fixed and not across)
    if len(inputs) == len(our.inputs) > 1 and (
        our.inputs != inputs
        and ((turned and varying != theirs) or _moved(our.inputs, inputs, problem, constants, fixed))
    ):
        made = replace(their, inputs=inputs, outputs=our.outputs)
        code = "operands.other" if our.kind in _COMMUTES else "operands.reordered"
        found = fact(code, operator=our.kind)
        yield stated("operand order", found, lambda p: Patch(i, i + 1, (made,), constants), 0.6)
    other: dict[int, tuple[Any, torch.Tensor]] = {}
    for place in range(max(len(our.inputs), len(inputs))):
        a, b = (n[place] if place < len(n) else None for n in (our.inputs, inputs))
        old = problem.constants.get(a or "")
        new = constants.get(b or "")
        if new is None or (old is None and a is not None) or not _differs(old, new):
            continue
        other[place] = old, new
    yield from _constants(problem, i, other)
    if len(our.inputs) > len(inputs) or any(b is None and a is not None for a, b in zip(our.inputs, inputs)):
        kind = (
            "bias" if our.kind in ("conv", "conv_transpose", "gemm", "linear", "layer_norm") else "operator"
        )
        lost = replace(
            our,
            inputs=tuple(
                a if k < len(inputs) and inputs[k] is not None else None for k, a in enumerate(our.inputs)
            ),
        )
        missing = "bias" if kind == "bias" else "operand"
        found = fact("operator.left_out", network=missing, twin="nothing")
        yield stated(kind, found, lambda p: Patch(i, i + 1, (lost,)), 0.6)


def _constants(problem: Problem, i: int, other: dict[int, tuple[Any, torch.Tensor]]) -> Iterator[Candidate]:
    """Other constants of a layer: each by itself, and all that are learned, as another checkpoint has them."""
    for place, (old, new) in other.items():
        yield _constant(problem, i, place, old, new)
    found = other_parameters(problem.layers[i].kind, other)
    if found is not None:
        news = {place: new for place, (_, new) in other.items()}
        yield _last_resort(found, lambda p: p.give_all(i, news))


def _last_resort(found: Fact, change: Callable[[Problem], Patch]) -> Candidate:
    """Other weights altogether: believed only if no change of ours makes them, such as a factor or another order."""
    return Candidate(kind="weights", fact=found, change=change, cost=10.0, whole=True)


def _folded_norm(problem: Problem, i: int, their: Layer) -> Iterator[Candidate]:
    """The weights of a layer into which the converter folded the batch norm after it."""
    assert problem.twin is not None
    pair = problem.layers[i : i + 2]
    if len(pair) < 2 or pair[1].kind != "batch_norm" or pair[1].inputs[0] != pair[0].outputs[0]:
        return
    made = simplified(Graph(pair, (), pair[1].outputs, problem.constants))
    if [layer.kind for layer in made.layers] != [their.kind]:
        return
    (ours,) = made.layers
    values = {
        place: (made.constants.get(a or ""), problem.twin.constants.get(b or ""))
        for place, (a, b) in enumerate(zip(ours.inputs, their.inputs))
        if place
    }
    other = {k: (a, b) for k, (a, b) in values.items() if b is not None and _differs(a, b)}
    found = other_parameters(ours.kind, other)
    if found is not None:
        constants = {ours.inputs[k] or "": b for k, (_, b) in other.items()}
        patch = Patch(i, i + 2, (ours,), {**made.constants, **constants})
        yield _last_resort(found, lambda p: patch)


def _constant(problem: Problem, i: int, place: int, old: Any, new: torch.Tensor) -> Candidate:
    """Another constant at a place of a layer."""
    layer = problem.layers[i]
    kind, found = other_constant(layer.kind, place, old, new)
    if other := owner(problem, layer.inputs[place] if place < len(layer.inputs) else None, new):
        kind, found = "weights", fact("weights.of_another_layer", network=None, twin=other, bias=False)
    return stated(kind, found, lambda p: p.give(i, place, new), 0.5)


def _same_meaning(
    problem: Problem, i: int, their: Layer, inputs: tuple[str | None, ...]
) -> dict[int, torch.Tensor] | None:
    """The twin's constants as our layer reads them, by place; None if its operator computes something else.

    Two operators mean the same if the twin's makes what ours makes when it is given our constants: a matrix product
    has several names, and one of them takes its matrix the other way round.
    """
    assert problem.twin is not None
    our, constants = problem.layers[i], problem.twin.constants
    for turned in (False, True):
        ours: dict[str, torch.Tensor] = {}
        theirs: dict[int, torch.Tensor] = {}
        for place, (a, b) in enumerate(itertools.zip_longest(our.inputs, inputs)):
            old, new = problem.constants.get(a or ""), constants.get(b or "")
            if b is None or not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
                if a != b:
                    return None
                continue
            turn = turned and place == 1 and old.dim() == 2 == new.dim()
            ours[b], theirs[place] = (old.t(), new.t()) if turn else (old, new)
        made = replace(their, inputs=inputs, outputs=our.outputs)
        if any(theirs[k].shape != problem.constants[our.inputs[k] or ""].shape for k in theirs):
            continue
        found = problem.run(Patch(i, i + 1, (made,), {**constants, **ours}))
        if found is not None and found.shape == problem.expected.shape:
            off = (found.double() - problem.expected.double()).abs()
            if bool((off <= problem.slack * problem.floor).all()):
                return theirs
    return None


def _moved(
    ours: _Operands, theirs: _Operands, problem: Problem, constants: Mapping[str, Any], fixed: bool
) -> bool:
    """Constants and data have changed places."""
    return (fixed or len(ours) == 2) and any(
        (a in problem.constants) != (b in constants) for a, b in zip(ours, theirs)
    )


def _differs(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a, b)
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return True
    return a != b


def _attribute(layer: Layer, name: str, ours: Any, theirs: Any) -> Fact:
    """Another value of an attribute."""
    windowed = "conv" in layer.kind or "pool" in layer.kind
    if name == "pads" and windowed and isinstance(ours, tuple) and isinstance(theirs, tuple):
        return fact("padding.pads", network=by_axis(ours), twin=by_axis(theirs))
    if name == "approximate":
        return fact("activation.approximation", network=ours, twin=theirs)
    return fact("attribute.another", name=name, network=_value(ours), twin=_value(theirs))


def _value(value: Any) -> Any:
    """An attribute as plain data."""
    return value if isinstance(value, str | int | float | tuple | list | None) else str(value)
