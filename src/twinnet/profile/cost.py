"""What a layer costs by its shapes alone: floating-point operations, and bytes read and written.

One table for all kinds. Operations are those of the plain definition (a multiply and an add are two), whatever an
engine does instead; a function such as `exp` counts as a few. Kinds that only move values cost none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twinnet.layers.graph import Graph, Layer

__all__ = ["Shapes", "float_width", "flops", "itemsize", "moved_bytes"]

Shapes = Mapping[str, tuple[int, ...]]
"""The shape of each value for the sample that is measured."""

_PER_ELEMENT = {
    "relu": 1, "max": 1, "min": 1, "abs": 1,
    "sigmoid": 4, "tanh": 6, "swish": 5, "gelu": 8, "mish": 10, "softplus": 6, "elu": 5, "celu": 5, "selu": 5,
    "hard_sigmoid": 3, "hard_swish": 4, "log_sigmoid": 6, "softsign": 3, "clip": 2, "leaky_relu": 2, "prelu": 2,
    "exp": 4, "log": 4, "pow": 8, "erf": 8, "sin": 4, "cos": 4, "sqrt": 2, "rsqrt": 2, "div": 1, "lerp": 3,
    "softmax": 6, "log_softmax": 7, "batch_norm": 2, "layer_norm": 8, "group_norm": 8, "instance_norm": 8,
    "rms_norm": 6, "mean_variance_norm": 8, "lp_norm": 4, "lrn": 8, "quantize_linear": 3, "dequantize_linear": 2,
    "dynamic_quantize_linear": 5, "glu": 5,
}  # fmt: skip
"""Operations per element: of the result where operands are broadcast, else of the first input."""
_REDUCES = ("reduce_", "cumsum", "cumprod", "argm", "topk", "sort", "global_")
_TAKES = ("gather", "gather_elements", "gather_nd", "index", "slice", "select", "split")
"""Kinds that read of their first input only what they give on: a few rows of a table, not all of it."""
_RENAMES = ("reshape", "flatten", "squeeze", "unsqueeze")
"""Kinds that give values another shape, and need not move them."""
_WIDTHS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def flops(layer: Layer, shapes: Shapes) -> int | None:
    """Operations of one layer; None if its kind or a shape it needs is not known.

    >>> layer = Layer("conv", ("x", "w"), ("y",), {})
    >>> flops(layer, {"x": (1, 3, 8, 8), "w": (16, 3, 3, 3), "y": (1, 16, 6, 6)})
    31104
    """
    given = [None if name is None else shapes.get(name) for name in layer.inputs]
    made = shapes.get(layer.outputs[0]) if layer.outputs else None
    if made is None:
        return None
    rule = _RULES.get(layer.kind)
    if rule is not None:
        return rule(layer, given, made)
    from twinnet.layers import kinds

    first = next((s for s in given if s is not None), made)
    kind = kinds.get(layer.kind)
    if layer.kind in _PER_ELEMENT:
        return _PER_ELEMENT[layer.kind] * math.prod(made if kind.elementwise else first)
    if layer.kind.startswith(_REDUCES):
        return math.prod(first)
    if kind.exact or kind.discrete:
        return 0
    return math.prod(made) if kind.elementwise else None


def moved_bytes(graph: Graph, layers: Sequence[Layer], shapes: Shapes, width: int) -> int | None:
    """Bytes that must be read and written to compute these layers together; values between them stay inside.

    `width` is the number of bytes of a float in the twin.
    """
    if layers and all(layer.kind in _RENAMES for layer in layers):
        return 0
    made = {name for layer in layers for name in layer.outputs}
    read = {name for layer in layers for name in layer.inputs if name is not None and name not in made}
    inside = {id(layer) for layer in layers}
    written = {
        name
        for name in made
        if name in graph.outputs
        or any(id(graph.layers[i]) not in inside for i in graph.consumers.get(name, ()))
    }
    sizes = {
        name: math.prod(shapes[name]) * itemsize(graph, name, width)
        for name in read | written
        if name in shapes
    }
    for name in read & sizes.keys():
        readers = [layer for layer in layers if name in layer.inputs]
        if all(layer.kind in _TAKES and layer.inputs.index(name) == 0 for layer in readers):
            taken = sum(math.prod(shapes.get(out, ())) for layer in readers for out in layer.outputs if out)
            sizes[name] = min(sizes[name], taken * itemsize(graph, name, width))
    return sum(sizes.values()) if sizes else None


def float_width(precision: str) -> int:
    """Bytes of a float of the network in a twin of this precision.

    >>> float_width("int16"), float_width("int8"), float_width("tf32")
    (2, 1, 4)
    """
    return _WIDTHS.get(precision, 1 if "int8" in precision else 4)


def itemsize(graph: Graph, name: str, width: int) -> int:
    """Bytes of one element of a value; `width` are those of a float in the twin."""
    held = graph.constants.get(name)
    dtype = held.dtype if held is not None else graph.dtypes.get(name)
    return width if dtype is None or dtype.is_floating_point else dtype.itemsize


# -- kinds whose cost depends on more than one shape ------------------------------------------------------------------

_Rule = Callable[[Layer, Sequence[tuple[int, ...] | None], tuple[int, ...]], int | None]


def _conv(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    weight = given[1] if len(given) > 1 else None
    return None if weight is None else 2 * math.prod(made) * math.prod(weight[1:]) + _bias(layer, given, made)


def _bias(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int:
    """The third operand is added to every element; in integers it is a zero point, and moves no result."""
    added = len(given) > 2 and given[2] is not None and not layer.kind.endswith("_integer")
    return math.prod(made) if added else 0


def _conv_transpose(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    if len(given) < 2 or given[0] is None or given[1] is None:
        return None
    return 2 * math.prod(given[0]) * math.prod(given[1][1:]) + _bias(layer, given, made)


def _matmul(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    if not given or given[0] is None or not given[0]:
        return None
    turned = bool(layer.attrs.get("trans_a")) and len(given[0]) > 1
    return 2 * math.prod(made) * given[0][-2 if turned else -1] + _bias(layer, given, made)


def _einsum(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    terms = str(layer.attrs.get("equation", "")).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, given):
        if shape is None or len(term) != len(shape):
            return None
        sizes.update(zip(term, shape))
    return 2 * math.prod(sizes.values()) if sizes else None


def _attention(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    if len(given) < 2 or given[0] is None or given[1] is None or len(given[0]) < 2:
        return None
    *rest, length, width = given[0]
    weights = math.prod(rest) * length * given[1][-2]
    return weights * (2 * width + 2 * made[-1] + 6)


def _recurrent(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    if len(given) < 3 or None in given[:3] or len(given[0]) != 3:
        return None
    steps, gates = math.prod(given[0][:2]), _GATES[layer.kind]
    directions, rows, width = given[1]
    hidden = rows // gates
    return directions * steps * gates * hidden * 2 * (width + hidden)


def _pool(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    return math.prod(made) * math.prod(layer.attrs.get("kernel", (1,)))


def _adaptive(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    return None if not given or given[0] is None else math.prod(given[0])


def _resize(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    taps = {"linear": 2, "cubic": 4}.get(str(layer.attrs.get("mode", "nearest")), 0)
    first = given[0] if given and given[0] is not None else made
    axes = sum(before != after for before, after in zip(first, made))
    return math.prod(made) * (taps**axes) * 2 if taps else 0


def _grid_sample(layer: Layer, given: Sequence[Any], made: tuple[int, ...]) -> int | None:
    return 12 * math.prod(made)


_RULES: Mapping[str, _Rule] = {
    "conv": _conv, "conv_integer": _conv, "conv_transpose": _conv_transpose, "matmul": _matmul, "gemm": _matmul,
    "linear": _matmul, "matmul_integer": _matmul, "einsum": _einsum, "attention": _attention, "lstm": _recurrent,
    "gru": _recurrent, "rnn": _recurrent, "max_pool": _pool, "average_pool": _pool, "lp_pool": _pool,
    "adaptive_average_pool": _adaptive, "adaptive_max_pool": _adaptive, "resize": _resize, "grid_sample": _grid_sample,
}  # fmt: skip
