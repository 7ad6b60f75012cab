"""Brings graphs of different formats into one form, so that they can be compared.

Exporters fold a batch norm into the convolution before it, write swish as two operators, give axes as an operand and
transpose the weights of a matrix product. None of this changes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from twinnet.layers.graph import Graph, Layer

__all__ = ["simplified", "with_linear_layers", "with_scales_folded", "without_copies"]

_COPIES = {"identity", "dropout", "contiguous", "clone", "detach"}
_WITH_AXES = ("reduce_", "squeeze", "unsqueeze")


def simplified(graph: Graph) -> Graph:
    """The same computation in fewer forms; weights computed on the way are float64.

    >>> layers = (Layer("sigmoid", ("x",), ("s",)), Layer("mul", ("x", "s"), ("y",)))
    >>> [layer.kind for layer in simplified(Graph(layers, ("x",), ("y",)))]
    ['swish']
    """
    work = _Work(graph)
    for rule in (_copies, _bounds, _means, _axes, _pads, _products, _swish, _batch_norm):
        rule(work)
    return work.done()


def with_scales_folded(graph: Graph) -> Graph:
    """`simplified`, and constants that scale or shift a layer with weights as part of them, as converters write it.

    >>> layers = (Layer("linear", ("x", "w"), ("p",)), Layer("neg", ("p",), ("y",)))
    >>> made = with_scales_folded(Graph(layers, ("x",), ("y",), {"w": torch.ones(2, 3)}))
    >>> [(layer.kind, layer.outputs) for layer in made], float(made.constants[made.layers[0].inputs[1]].sum())
    ([('linear', ('y',))], -6.0)
    """
    work = _Work(simplified(graph))
    _scales(work)
    return work.done()


def with_linear_layers(graph: Graph) -> Graph:
    """The graph with `linear` wherever it multiplies by a constant matrix, with or without a constant vector added.

    >>> w, b = torch.ones(2, 3), torch.ones(3)
    >>> layers = (Layer("matmul", ("x", "w"), ("p",)), Layer("add", ("p", "b"), ("y",)))
    >>> made = with_linear_layers(Graph(layers, ("x",), ("y",), {"w": w, "b": b}))
    >>> [layer.kind for layer in made], made.constants[made.layers[0].inputs[1]].shape
    (['linear'], torch.Size([3, 2]))
    """
    work = _Work(graph)
    _products(work)
    return work.done()


def without_copies(graph: Graph) -> Graph:
    """The graph without layers that hand their operand on, but for those that make its outputs.

    >>> layers = (Layer("identity", ("x",), ("t",)), Layer("relu", ("t",), ("y",)))
    >>> without_copies(Graph(layers, ("x",), ("y",))).layers[0].inputs
    ('x',)
    """
    work = _Work(graph)
    _copies(work)
    return work.done()


class _Work:
    """A graph being rewritten; a removed layer is None."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layers: list[Layer | None] = list(graph.layers)
        self.constants: dict[str, Any] = dict(graph.constants)

    def done(self) -> Graph:
        return replace(self.graph, layers=tuple(x for x in self.layers if x), constants=self.constants)

    def uses(self) -> dict[str, int]:
        found: dict[str, int] = dict.fromkeys(self.graph.outputs, 1)
        for layer in self.layers:
            for name in layer.inputs if layer else ():
                if name is not None:
                    found[name] = found.get(name, 0) + 1
        return found

    def makers(self) -> dict[str, int]:
        return {n: i for i, layer in enumerate(self.layers) if layer for n in layer.outputs if n}

    def constant(self, name: str | None) -> torch.Tensor | None:
        value = self.constants.get(name) if name is not None else None
        return value if isinstance(value, torch.Tensor) else None


def _copies(work: _Work) -> None:
    same: dict[str, str] = {}
    for i, layer in enumerate(work.layers):
        if layer is None:
            continue
        inputs = tuple(same.get(n, n) if n is not None else None for n in layer.inputs)
        source = inputs[0] if inputs else None
        if layer.kind in _COPIES and source is not None and layer.outputs[0] not in work.graph.outputs:
            same[layer.outputs[0]] = source
            work.layers[i] = None
        else:
            work.layers[i] = replace(layer, inputs=inputs)


def _bounds(work: _Work) -> None:
    """Constant ends of a clip as attributes."""
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind != "clip" or len(layer.inputs) < 2:
            continue
        ends = [
            (n, work.constant(name)) for n, name in zip(("min", "max"), layer.inputs[1:]) if name is not None
        ]
        if all(value is not None and value.numel() == 1 for _, value in ends):
            attrs = {n: float(value) for n, value in ends if value is not None}
            work.layers[i] = replace(layer, inputs=layer.inputs[:1], attrs={**layer.attrs, **attrs})


def _means(work: _Work) -> None:
    """Pools that take the mean of a whole image as the reduction they are, those of equal parts as plain ones."""
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind not in ("adaptive_average_pool", "global_average_pool"):
            continue
        size = layer.attrs.get("output_size")
        shape = work.graph.shapes.get(layer.inputs[0] or "")
        if layer.kind == "global_average_pool":
            axes = tuple(range(2, len(shape))) if shape is not None else ()
        else:
            sizes = tuple(size) if isinstance(size, tuple | list) else ()
            axes = tuple(range(-len(sizes), 0)) if all(n == 1 for n in sizes) else ()
        if not axes and size and shape is not None and len(shape) > len(size):
            work.layers[i] = _equal_parts(layer, shape[-len(size) :], size) or layer
        if axes:
            work.layers[i] = replace(layer, kind="reduce_mean", attrs={"axes": axes, "keepdims": True})


def _equal_parts(layer: Layer, sizes: Any, parts: Any) -> Layer | None:
    """A pool to a size that divides the image's, as one with a window; None for any other."""
    wanted = [given if n is None else n for given, n in zip(sizes, parts, strict=True)]
    if not all(isinstance(a, int) and isinstance(b, int) and b and a % b == 0 for a, b in zip(sizes, wanted)):
        return None
    kernel = tuple(a // b for a, b in zip(sizes, wanted))
    return replace(layer, kind="average_pool", attrs={"kernel": kernel, "strides": kernel})


def _pads(work: _Work) -> None:
    """Zeros around an image that only a convolution reads, as the padding of that convolution."""
    uses, makers = work.uses(), work.makers()
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind != "conv" or layer.attrs.get("auto_pad"):
            continue
        at = makers.get(layer.inputs[0] or "")
        before = work.layers[at] if at is not None else None
        if before is None or before.kind != "pad" or uses.get(layer.inputs[0] or "") != 1:
            continue
        around = _zeros_around(work, before)
        if around is None:
            continue
        assert at is not None
        own = layer.attrs.get("pads") or (0,) * len(around)
        pads = tuple(a + b for a, b in zip(own, around, strict=True))
        work.layers[at] = None
        work.layers[i] = replace(
            layer, inputs=(before.inputs[0], *layer.inputs[1:]), attrs={**layer.attrs, "pads": pads}
        )


def _zeros_around(work: _Work, layer: Layer) -> tuple[int, ...] | None:
    """The zeros that a padding adds to each spatial axis, begins before ends; None if it does anything else."""
    value = layer.attrs.get("value", 0)
    given = [work.constant(n) for n in layer.inputs[1:3]]
    pads = layer.attrs.get("pads")
    if pads is None and given and given[0] is not None:
        pads = given[0].flatten().tolist()
    if len(given) > 1 and given[1] is not None:
        value = float(given[1])
    plain = layer.attrs.get("mode", "constant") == "constant" and not value and not any(layer.inputs[3:])
    if pads is None or not plain or layer.attrs.get("axes") is not None or (given and given[0] is None):
        return None
    rank = len(pads) // 2
    begins, ends = pads[:rank], pads[rank:]
    if rank < 3 or any((*begins[:2], *ends[:2])) or min(pads) < 0:
        return None
    return (*(int(n) for n in begins[2:]), *(int(n) for n in ends[2:]))


def _axes(work: _Work) -> None:
    """Axes as an attribute, counted from the front where the rank is known."""
    for i, layer in enumerate(work.layers):
        if layer is None or not layer.kind.startswith(_WITH_AXES):
            continue
        attrs, inputs = dict(layer.attrs), layer.inputs
        given = work.constant(inputs[1]) if len(inputs) > 1 else None
        shape = work.graph.shapes.get(inputs[0] or "") if inputs else None
        if given is not None:
            attrs["axes"] = tuple(int(n) for n in given.flatten().tolist())
            inputs = inputs[:1]
        if shape is not None and isinstance(attrs.get("axes"), tuple) and layer.kind != "unsqueeze":
            attrs["axes"] = tuple(sorted(n % max(len(shape), 1) for n in attrs["axes"]))
        work.layers[i] = replace(layer, attrs=attrs, inputs=inputs)


def _products(work: _Work) -> None:
    """Matrix products with a constant matrix as `linear`: weight (out, in), then the bias."""
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind not in ("gemm", "matmul") or layer.attrs.get("trans_a"):
            continue
        source, name, *rest = layer.inputs
        weight = work.constant(name)
        if weight is None or name is None or weight.dim() != 2 or source in work.constants:
            continue
        scale, beta = layer.attrs.get("alpha", 1.0), layer.attrs.get("beta", 1.0)
        if scale != 1.0 or beta != 1.0:
            continue
        if not layer.attrs.get("trans_b"):
            name = f"{name}.T"
            work.constants[name] = weight.t().contiguous()
        work.layers[i] = replace(
            layer, kind="linear", inputs=(source, name, rest[0] if rest else None), attrs={}
        )
    uses, makers = work.uses(), work.makers()
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind != "add":
            continue
        for source, other in (layer.inputs[:2], layer.inputs[1::-1]):
            bias, at = work.constant(other), makers.get(source or "")
            product = work.layers[at] if at is not None else None
            if bias is None or product is None or product.kind != "linear" or any(product.inputs[2:]):
                continue
            if bias.dim() == 1 and uses.get(source or "") == 1:
                assert at is not None
                work.layers[at] = None
                work.layers[i] = replace(product, inputs=(*product.inputs[:2], other), outputs=layer.outputs)
                break


def _swish(work: _Work) -> None:
    uses, makers = work.uses(), work.makers()
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind != "mul":
            continue
        for x, gate in (layer.inputs[:2], layer.inputs[1::-1]):
            at = makers.get(gate or "")
            other = work.layers[at] if at is not None else None
            if (
                other is not None
                and other.kind == "sigmoid"
                and other.inputs[0] == x
                and uses.get(gate or "") == 1
            ):
                assert at is not None
                work.layers[at] = None
                work.layers[i] = replace(layer, kind="swish", op="", inputs=(x,), attrs={})
                break


def _batch_norm(work: _Work) -> None:
    """Batch norm with fixed statistics, folded into the only layer it follows."""
    uses, makers = work.uses(), work.makers()
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind != "batch_norm" or len(layer.inputs) < 5:
            continue
        at = makers.get(layer.inputs[0] or "")
        before = work.layers[at] if at is not None else None
        if before is None or before.kind not in _FOLDS or uses.get(layer.inputs[0] or "") != 1:
            continue
        scale, shift, mean, var = (work.constant(n) for n in layer.inputs[1:5])
        weight = work.constant(before.inputs[1])
        bias = work.constant(before.inputs[2]) if len(before.inputs) > 2 else None
        unknown = len(before.inputs) > 2 and before.inputs[2] is not None and bias is None
        if weight is None or mean is None or var is None or unknown:
            continue
        rate = (var.double() + layer.attrs.get("eps", 1e-5)).rsqrt() * (
            1.0 if scale is None else scale.double()
        )
        moved = -mean.double() if bias is None else bias.double() - mean.double()
        offset = moved * rate + (0.0 if shift is None else shift.double())
        folded = _FOLDS[before.kind](weight.double(), rate, before.attrs)
        if folded is None:
            continue
        names = (f"{layer.outputs[0]}.weight", f"{layer.outputs[0]}.bias")
        work.constants.update(zip(names, (folded, offset), strict=True))
        assert at is not None
        work.layers[at] = None
        work.layers[i] = replace(before, inputs=(*before.inputs[:1], *names), outputs=layer.outputs[:1])


def _scales(work: _Work) -> None:
    """Constants for each channel, or for all, folded into the only layer with weights before them."""
    for i, layer in enumerate(work.layers):
        if layer is None or layer.kind not in _SCALES:
            continue
        uses, makers = work.uses(), work.makers()
        data = [n for n in layer.inputs if n is not None and n not in work.constants]
        at = makers.get(data[0]) if len(data) == 1 else None
        before = work.layers[at] if at is not None else None
        if at is None or before is None or before.kind not in _FOLDS or uses.get(data[0]) != 1:
            continue
        weight = work.constant(before.inputs[1])
        bias = work.constant(before.inputs[2]) if len(before.inputs) > 2 else None
        if weight is None or (bias is None and any(before.inputs[2:3])):
            continue
        channels = weight.shape[1 if before.kind == "conv_transpose" else 0]
        behind = 0 if before.kind == "linear" else weight.dim() - 2
        other = next((n for n in layer.inputs if n != data[0]), None)
        value = _by_channel(work.constant(other), channels, behind)
        if layer.kind != "neg" and value is None:
            continue
        rate, shift = _SCALES[layer.kind](value, layer.inputs[0] == data[0])
        rate, shift = (torch.as_tensor(v, dtype=torch.float64).expand(channels) for v in (rate, shift))
        folded = _FOLDS[before.kind](weight.double(), rate, before.attrs)
        if folded is None or (layer.kind == "div" and layer.inputs[0] != data[0]):
            continue
        names = (f"{layer.outputs[0]}.weight", f"{layer.outputs[0]}.bias")
        offset = shift if bias is None else bias.double() * rate + shift
        work.constants.update(zip(names, (folded, offset), strict=True))
        work.layers[at] = None
        work.layers[i] = replace(before, inputs=(*before.inputs[:1], *names), outputs=layer.outputs[:1])


def _by_channel(value: torch.Tensor | None, channels: int, behind: int) -> torch.Tensor | None:
    """A constant as one number for each channel, or one for all; None if it is neither."""
    if value is None or not value.is_floating_point():
        return None
    if value.numel() == 1:
        return value.double().reshape(1)
    fits = (
        value.numel() == channels
        and tuple(value.shape[value.dim() - behind - 1 :]) == (channels,) + (1,) * behind
    )
    return value.double().reshape(-1) if fits else None


_SCALES: dict[str, Callable[[Any, bool], tuple[Any, Any]]] = {
    "neg": lambda c, first: (-1.0, 0.0),
    "mul": lambda c, first: (c, 0.0),
    "div": lambda c, first: (1 / c, 0.0),
    "add": lambda c, first: (1.0, c),
    "sub": lambda c, first: (1.0, -c) if first else (-1.0, c),
}
"""Factor and summand of operators with a constant; whether the data come first matters to one."""


def _first_axis(weight: torch.Tensor, rate: torch.Tensor, attrs: Mapping[str, Any]) -> torch.Tensor | None:
    return (
        weight * rate.reshape((-1,) + (1,) * (weight.dim() - 1)) if weight.shape[0] == rate.numel() else None
    )


def _second_axis(weight: torch.Tensor, rate: torch.Tensor, attrs: Mapping[str, Any]) -> torch.Tensor | None:
    if attrs.get("group", 1) != 1 or weight.shape[1] != rate.numel():
        return None
    return weight * rate.reshape((1, -1) + (1,) * (weight.dim() - 2))


_FOLDS: dict[str, Callable[[torch.Tensor, torch.Tensor, Mapping[str, Any]], torch.Tensor | None]] = {
    "conv": _first_axis,
    "linear": _first_axis,
    "conv_transpose": _second_axis,
}
