"""The sides of a layer's bounds: what a tensor must reach so that a fault beyond the bound can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinnet.layers.graph import Graph, Layer

__all__ = ["Side", "sides_of"]

_NEGATIVE = ("relu", "abs", "leaky_relu", "prelu", "elu", "celu", "selu", "shrink")
"""Kinds that treat numbers below and above 0 differently."""
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")
_EQUALITIES = ("equal", "not_equal")
_NOT_NEGATIVE = ("relu", "abs", "sigmoid", "hard_sigmoid", "softmax", "softplus", "square", "exp", "sqrt")
_KEEPS_SIGN = (
    "identity",
    "reshape",
    "transpose",
    "concat",
    "slice",
    "max_pool",
    "average_pool",
    "dropout",
    "add",
)
"""Kinds that make no negative number of numbers that are none."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a layer's bound: the tensor that must reach it, and how to tell that it does."""

    layer: Layer
    tensor: str
    code: str
    """below, above, equal, unequal, true, false, halfway, masked, border or nan."""
    bound: float
    reached: Callable[[np.ndarray], bool]

    @property
    def like(self) -> tuple[str, float]:
        """What it has in common with the same bound of another graph, whatever operator sets it there."""
        return self.code, float(np.float32(self.bound))


def sides_of(layer: Layer, graph: Graph, makers: Mapping[str, Layer]) -> Iterable[Side]:
    """The sides of one layer's bounds; `makers` are the layers by what they make."""
    tensor = layer.inputs[0] if layer.inputs else None
    if layer.kind in ("max", "min", *_COMPARISONS, *_EQUALITIES):
        return _beside_constant(layer, graph, makers)
    if layer.kind == "opaque":
        return _of_opaque(layer, graph)
    if tensor is None or tensor in graph.constants:
        return ()
    if layer.kind in _NEGATIVE:
        return _around(layer, tensor, 0.0, 0.0)
    if layer.kind in ("mod", "floor", "ceil", "trunc") or (
        layer.kind == "div" and layer.attrs.get("rounding")
    ):
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "pow" and _odd(_number(graph, layer.inputs[1], makers)):
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "cast" and _to_whole(layer, graph):
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "cast" and str(graph.dtypes.get(tensor)) == "torch.uint8":
        return _around(layer, tensor, None, 127.0)  # read as signed numbers, those above are negative
    if layer.kind == "bit_shift" and layer.attrs.get("direction") == "right":
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "atan2" and (across := layer.inputs[1]) is not None and across not in graph.constants:
        return _around(layer, across, 0.0, None)  # where it is not the arc tangent of the quotient
    if layer.kind == "max_pool":
        return () if _is_not_negative(tensor, graph, makers) else _of_padding(layer)
    if layer.kind == "attention" and layer.attrs.get("is_causal"):
        return (Side(layer, tensor, "masked", 0.0, lambda array: array.ndim > 1 and array.shape[-2] > 1),)
    if layer.kind == "round":
        return (Side(layer, tensor, "halfway", 0.0, lambda array: bool((array % 1 == 0.5).any())),)
    if layer.kind == "thresholded_relu":
        at = float(layer.attrs.get("alpha", 1.0))
        return _around(layer, tensor, at, at)
    if layer.kind == "hard_swish":
        return _around(layer, tensor, -3.0, 3.0)
    if layer.kind == "hard_sigmoid":
        alpha, beta = float(layer.attrs.get("alpha", 0.2)), float(layer.attrs.get("beta", 0.5))
        return _around(layer, tensor, -beta / alpha, (1 - beta) / alpha) if alpha else ()
    if layer.kind == "clip":
        return _around(layer, tensor, _limit(layer, graph, "min", 1), _limit(layer, graph, "max", 2))
    if layer.kind == "grid_sample" and layer.inputs[1] is not None and layer.inputs[1] not in graph.constants:
        return _around(layer, layer.inputs[1], -1.0, 1.0)
    if layer.kind in ("where", "if"):
        if tensor in makers and _beside_constant(makers[tensor], graph, makers):
            return ()  # the comparison that decides it is listed itself
        return tuple(
            Side(layer, tensor, code, 0.0, lambda array, to=to: bool((array.astype(bool) == to).any()))
            for code, to in (("true", True), ("false", False))
        )
    return ()


def _beside_constant(layer: Layer, graph: Graph, makers: Mapping[str, Layer]) -> tuple[Side, ...]:
    """Both sides of the number that a tensor is compared with, or that bounds it, and that number itself.

    Of numbers with decimals none is just that number, unless it is a whole one.
    """
    if layer.kind not in ("max", "min", *_COMPARISONS, *_EQUALITIES) or len(layer.inputs) != 2:
        return ()
    for tensor, other in (layer.inputs, layer.inputs[::-1]):
        at = _number(graph, other, makers)
        if at is None or tensor is None or tensor in graph.constants:
            continue
        equal = Side(layer, tensor, "equal", at, lambda array, at=at: bool((array == at).any()))
        if layer.kind in _EQUALITIES:
            unequal = Side(layer, tensor, "unequal", at, lambda array, at=at: bool((array != at).any()))
            return (equal, unequal)
        tells = layer.kind in _COMPARISONS and at % 1 == 0
        return (*_around(layer, tensor, at, at), *((equal,) if tells else ()))
    return ()


def _of_opaque(layer: Layer, graph: Graph) -> tuple[Side, ...]:
    """Operators without a canonical form of which it is known where they do something else."""
    given = [n for n in layer.inputs if n is not None and n not in graph.constants]
    if not given:
        return ()
    if layer.op == "nan_to_num":
        return (Side(layer, given[0], "nan", 0.0, lambda array: not np.isfinite(array).all()),)
    if layer.op.strip("_") in ("rshift", "bitwise_right_shift"):
        return _around(layer, given[0], 0.0, None)
    return ()


def _of_padding(layer: Layer) -> tuple[Side, ...]:
    """A maximum at the border that is negative: only there it matters that padding is not 0."""
    pads, made = tuple(layer.attrs.get("pads") or ()), layer.outputs[0]
    if not any(pads) or not made:
        return ()
    axes = len(pads) // 2
    padded = [(axis - axes, 0) for axis in range(axes) if pads[axis]]
    padded += [(axis - axes, -1) for axis in range(axes) if pads[axis + axes]]

    def reached(array: np.ndarray) -> bool:
        return any(array.ndim >= axes and bool((array.take(at, axis) < 0).any()) for axis, at in padded)

    return (Side(layer, made, "border", 0.0, reached),)


def _is_not_negative(name: str | None, graph: Graph, makers: Mapping[str, Layer]) -> bool:
    """Whether a value cannot be negative, as far as the layers before it tell."""
    layer = makers.get(name or "")
    if layer is None:
        return False
    if layer.kind == "clip":
        least = _limit(layer, graph, "min", 1)
        return least is not None and least >= 0
    if layer.kind in _KEEPS_SIGN:
        given = [n for n in layer.inputs[: None if layer.kind in ("concat", "add") else 1] if n is not None]
        return bool(given) and all(_is_not_negative(n, graph, makers) for n in given)
    return layer.kind in _NOT_NEGATIVE


def _number(graph: Graph, name: str | None, makers: Mapping[str, Layer]) -> float | None:
    """The value of a constant that is one number, whatever its shape, or of a copy of it; None otherwise."""
    while name is not None and name in makers and makers[name].kind == "identity":
        name = makers[name].inputs[0]
    held: Any = graph.constants.get(name or "")
    return float(held) if held is not None and held.numel() == 1 and not held.is_complex() else None


def _odd(exponent: float | None) -> bool:
    """Whether a power has the sign of its base."""
    return exponent is not None and exponent % 2 == 1


def _to_whole(layer: Layer, graph: Graph) -> bool:
    """Whether numbers with decimals become whole ones: below 0 some engines round down, others towards 0."""
    given, made = (graph.dtypes.get(n or "") for n in (layer.inputs[0], layer.outputs[0]))
    return given is not None and made is not None and given.is_floating_point and not made.is_floating_point


def _around(layer: Layer, tensor: str, low: float | None, high: float | None) -> tuple[Side, ...]:
    found = []
    if low is not None and np.isfinite(low):
        found.append(Side(layer, tensor, "below", low, lambda array: bool((array < low).any())))
    if high is not None and np.isfinite(high):
        found.append(Side(layer, tensor, "above", high, lambda array: bool((array > high).any())))
    return tuple(found)


def _limit(layer: Layer, graph: Graph, name: str, position: int) -> float | None:
    """A bound of a clip that is one number and known; None otherwise."""
    given: Any = layer.attrs.get(name)
    if given is None and len(layer.inputs) > position and layer.inputs[position] is not None:
        given = graph.constants.get(str(layer.inputs[position]))
    if given is None:
        return None
    return float(given) if getattr(given, "numel", lambda: 1)() == 1 else None
