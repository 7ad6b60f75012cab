"""What the two graphs themselves say: other attributes, other constants, another operator, one more or
one less.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.causes._linear import with_linear_layers
from twinnet.blame.causes._words import constant_words
from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.causes.kinds import KINDS
from twinnet.blame.causes.other_layer import owner
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer

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
_ACTIVATIONS = {
    "relu", "sigmoid", "tanh", "softsign", "log_sigmoid", "hard_swish", "clip", "leaky_relu", "prelu",
    "elu", "celu", "selu", "thresholded_relu", "shrink", "hard_sigmoid", "swish", "gelu", "mish",
    "softplus",
}  # fmt: skip
_ROUND = {"round", "floor", "ceil", "trunc"}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if problem.twin is None:
        return
    if any(layer.kind == "linear" for layer in problem.layers):
        problem = replace(problem, twin=with_linear_layers(problem.twin))
    assert problem.twin is not None
    ours, theirs = problem.layers, problem.twin.layers
    match = difflib.SequenceMatcher(a=[x.kind for x in ours], b=[x.kind for x in theirs], autojunk=False)
    names: dict[str, str] = {}
    for what, a, b, c, d in match.get_opcodes():
        if what in ("equal", "replace") and b - a == d - c:
            for i, j in zip(range(a, b), range(c, d)):
                names.update({t: o for o, t in zip(ours[i].outputs, theirs[j].outputs) if t})
                yield from _compare(problem, i, ours[i], theirs[j], names)
        elif what == "delete":
            for i in range(a, b):
                yield _dropped(problem, i)
        elif what == "insert":
            yield from _inserted(problem, a, theirs[c:d], names)


def _dropped(problem: Problem, i: int) -> Candidate:
    layer = problem.layers[i]
    place = next((p for p, n in enumerate(layer.inputs) if n is not None and n not in problem.constants), 0)
    fixed = [c for p in (0, 1) if isinstance(c := problem.constant(i, p), torch.Tensor)]
    kind, words = _group(layer.kind), f"leaves out the {layer.kind.replace('_', ' ')}"
    if fixed and layer.kind in ("add", "sub", "mul", "div", "pow", "max", "min"):
        many = fixed[0].numel() > 1
        kind = (
            {"add": "bias", "sub": "bias", "mul": "scale", "div": "scale"}.get(layer.kind, "constant")
            if many
            else "constant"
        )
        words += " with its constant" if many else f" with {plain(float(fixed[0]))}"
    return in_words(kind, words, lambda p: p.drop(i, place), layer.kind, "nothing", 0.75, True, True)


def _group(kind: str) -> str:
    if kind in _ACTIVATIONS:
        return "activation"
    if kind.endswith("_norm"):
        return "normalisation"
    if "pool" in kind:
        return "pooling"
    return "rounding" if kind in _ROUND else "operator"


def _compare(
    problem: Problem, i: int, our: Layer, their: Layer, names: dict[str, str]
) -> Iterator[Candidate]:
    assert problem.twin is not None
    constants = problem.twin.constants
    inputs = tuple(None if n is None else names.get(n, n) for n in their.inputs)
    if our.kind != their.kind and their.kind == "identity":
        yield _dropped(problem, i)
        return
    if our.kind != their.kind and (alike := _same_meaning(problem, i, their, inputs)) is not None:
        for place, new in alike.items():
            old = problem.constants[our.inputs[place] or ""]
            if _differs(old, new):
                yield _constant(problem, i, place, old, new)
        return
    if our.kind != their.kind:
        kind = _group(our.kind) if _group(our.kind) == _group(their.kind) else "operator"
        if {_group(our.kind), _group(their.kind)} <= {"activation", "operator"} and our.kind in _ACTIVATIONS:
            kind = "activation"
        a, b = our.kind.replace("_", " "), their.kind.replace("_", " ")
        made = replace(their, inputs=inputs, outputs=our.outputs)
        yield in_words(
            kind,
            f"{b} where the network has {a}",
            lambda p: Patch(i, i + 1, (made,), constants),
            a,
            b,
            0.75,
            True,
            True,
        )
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
        words = _attribute_words(our, name, a, b)
        yield in_words(kind, words, lambda p, n=name, v=b: p.set(i, n, v), a, b, 0.5, True, True)
    varying = [n for n in our.inputs if n is not None and n not in problem.constants]
    theirs = [n for n in inputs if n is not None and n not in constants]
    # Other operands are the cause where they are all that is different; their order may be besides.
    fixed = all(
        not _differs(problem.constants[a], constants[b])
        for a, b in zip(our.inputs, inputs)
        if a is not None and b is not None and a in problem.constants and b in constants
    )
    turned = sorted(varying) == sorted(theirs) or fixed
    if len(inputs) == len(our.inputs) > 1 and (
        our.inputs != inputs
        and ((turned and varying != theirs) or _moved(our.inputs, inputs, problem, constants, fixed))
    ):
        made = replace(their, inputs=inputs, outputs=our.outputs)
        words = f"{our.kind.replace('_', ' ')} with its operands in another order"
        yield in_words(
            "operand order", words, lambda p: Patch(i, i + 1, (made,), constants), None, None, 0.6, True, True
        )
    for place in range(max(len(our.inputs), len(inputs))):
        a, b = (n[place] if place < len(n) else None for n in (our.inputs, inputs))
        old = problem.constants.get(a or "")
        new = constants.get(b or "")
        if new is None or (old is None and a is not None) or not _differs(old, new):
            continue
        yield _constant(problem, i, place, old, new)
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
        yield in_words(
            kind,
            "leaves out the bias" if kind == "bias" else "leaves out an operand",
            lambda p: Patch(i, i + 1, (lost,)),
            "bias",
            "nothing",
            0.6,
            True,
            True,
        )


def _constant(problem: Problem, i: int, place: int, old: Any, new: torch.Tensor) -> Candidate:
    """Another constant at a place of a layer."""
    layer = problem.layers[i]
    kind, words = constant_words(layer.kind, place, old, new)
    if other := owner(problem, layer.inputs[place] if place < len(layer.inputs) else None, new):
        kind, words = "weights", f"has the weights of {other}"
    assert kind in KINDS
    return in_words(kind, words, lambda p: p.give(i, place, new), _short(old), _short(new), 0.5, True, True)


def _same_meaning(
    problem: Problem, i: int, their: Layer, inputs: tuple[str | None, ...]
) -> dict[int, torch.Tensor] | None:
    """The twin's constants as our layer reads them, by place; None where its operator computes something else.

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


def _moved(ours, theirs, problem: Problem, constants, fixed: bool) -> bool:
    """Constants and data have changed places."""
    return (fixed or len(ours) == 2) and any(
        (a in problem.constants) != (b in constants) for a, b in zip(ours, theirs)
    )


def _inserted(
    problem: Problem, at: int, extra: tuple[Layer, ...], names: dict[str, str]
) -> Iterator[Candidate]:
    """Layers that only the twin has: before the layer `at` on the operand they read, or after the last
    one.
    """
    assert problem.twin is not None
    constants = problem.twin.constants
    made = {n for layer in extra for n in layer.outputs}
    data = list(
        dict.fromkeys(
            names.get(n, n)
            for x in extra
            for n in x.inputs
            if n is not None and n not in constants and n not in made
        )
    )
    if len(data) != 1:
        return
    source, result = data[0], extra[-1].outputs[0]
    kind, words = _insertion(problem, extra, source)

    def renamed(start: str, end: str) -> tuple[Layer, ...]:
        to = {source: start, result: end}
        back = dict(names)

        def name(n: str | None) -> str | None:
            return None if n is None else to.get(back.get(n, n), to.get(n, back.get(n, n)))

        return tuple(
            replace(x, inputs=tuple(map(name, x.inputs)), outputs=tuple(name(n) or "" for n in x.outputs))
            for x in extra
        )

    if at < len(problem.layers) and source in problem.layers[at].inputs:
        new = f"{source}/twin"
        after = replace(
            problem.layers[at], inputs=tuple(new if n == source else n for n in problem.layers[at].inputs)
        )
        patch = Patch(at, at + 1, (*renamed(source, new), after), constants)
    elif at > 0:
        last = problem.layers[at - 1]
        inner = last.outputs[0] + "/before"
        before = replace(last, outputs=(inner, *last.outputs[1:]))
        patch = Patch(at - 1, at, (before, *renamed(inner, last.outputs[0])), constants)
    else:
        return
    rounds = kind in ("quantisation", "precision")
    # What several steps together mean is better said by a family that names it as one thing.
    plainly = len(extra) == 1 or kind != "operator"
    cost = 0.75 if plainly else 4.0
    yield in_words(
        kind, words, lambda p: patch, "nothing", "+".join(x.kind for x in extra), cost, True, plainly, rounds
    )


def _insertion(problem: Problem, extra: tuple[Layer, ...], source: str) -> tuple[str, str]:
    assert problem.twin is not None
    kinds = [x.kind for x in extra]
    word = ", ".join(k.replace("_", " ") for k in kinds)
    words = f"applies {word} that the network does not have"
    fixed = [
        problem.twin.constants[n]
        for x in extra
        for n in x.inputs
        if n is not None and n in problem.twin.constants
    ]
    if source in problem.values and not problem.values[source].is_floating_point():
        return "index", f"changes the positions by {word}, which the network does not do"
    if "quantize_linear" in kinds:
        return "quantisation", "rounds to quantised values, which the network does not do"
    if "cast" in kinds:
        to = next(x.attrs.get("to") for x in extra if x.kind == "cast")
        return "precision", f"rounds to {str(to).removeprefix('torch.')}"
    if (
        kinds == ["gather"]
        and fixed
        and sorted(fixed[0].reshape(-1).tolist()) == list(range(fixed[0].numel()))
    ):
        order = fixed[0].reshape(-1)
        off = (order != torch.arange(len(order))).nonzero().reshape(-1).tolist()
        return "channel order", f"channels {off[0]} and {off[1]} are exchanged" if len(
            off
        ) == 2 else f"reads {len(off)} of {len(order)} channels in another order"
    if kinds == ["slice"]:
        back = any(bool((c < 0).all()) and c.numel() == 1 and int(c) == -1 for c in fixed[-1:])
        return ("layout", "has the values mirrored") if back else ("index", words)
    if "concat" in kinds:
        return "index", "has the values moved along an axis"
    if set(kinds) <= {"transpose", "reshape", "flip"}:
        return "layout", words
    if set(kinds) <= {"add", "sub", "mul", "div"}:
        numbers = " and ".join(f"{k} {plain(float(c))}" for k, c in zip(kinds, fixed) if c.numel() == 1)
        if source in problem.graph_inputs and len(kinds) > 1:
            return "preprocessing", f"prepares the input otherwise: {numbers or word}"
        kind = "scale" if kinds[0] in ("mul", "div") else "bias"
        return kind, f"applies {numbers or word} that the network does not have"
    return _group(kinds[0]), words


def _differs(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a, b)
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return True
    return a != b


def _attribute_words(layer: Layer, name: str, ours: object, theirs: object) -> str:
    if name == "approximate":
        said = {"none": "erf", None: "erf", "tanh": "tanh approximation"}
        return f"GELU {said.get(theirs, theirs)} instead of {said.get(ours, ours)}"  # type: ignore[arg-type]
    if (
        name == "pads"
        and isinstance(ours, tuple)
        and isinstance(theirs, tuple)
        and "conv" in layer.kind + "pool"
    ):
        from twinnet.blame.causes.padding import _words

        return f"pads {plain(_words(theirs))} where the network pads {plain(_words(ours))}"
    word = {
        "eps": "eps",
        "perm": "axes permuted by",
        "coordinates": "coordinates",
        "nearest": "rounding",
    }.get(name, name)
    return f"{word.replace('_', ' ')} {plain(theirs)} where the network has {plain(ours)}"


def _short(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.tolist() if value.numel() <= 8 else None
    return value
