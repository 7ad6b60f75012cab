"""A smaller version of a problem: a few output channels, so that many hypotheses can be tried quickly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.problem import Problem
from twinnet.layers import kinds
from twinnet.layers.graph import Layer

__all__ = ["fewer_channels"]

_WORTH = 1 << 15
_PASS = {
    "max_pool", "average_pool", "lp_pool", "global_average_pool", "global_max_pool", "global_lp_pool",
    "identity", "adaptive_average_pool", "adaptive_max_pool", "instance_norm", "max_unpool",
}  # fmt: skip


def fewer_channels(problem: Problem, count: int = 4) -> Problem | None:
    """The problem for the worst channels and a healthy one; None if channels cannot be separated."""
    y = problem.expected
    if problem.kept is not None:  # its steps apply to the whole tensor
        return None
    if not problem.same_shape or y.dim() < 3 or y.shape[1] <= 2 * count or y.numel() < _WORTH:
        return None
    axes = [a for a in range(y.dim()) if a != 1]
    sizes = torch.where(problem.error.isfinite(), problem.error.abs(), 0.0).amax(axes)
    order = torch.argsort(sizes, descending=True)
    chosen = torch.cat([order[: count - 1], order[-1:]]).sort().values
    need: dict[str, torch.Tensor | None] = {problem.target: chosen}
    layers: list[Layer] = []
    constants = dict(problem.constants)
    for layer in reversed(problem.layers):
        if len([n for n in layer.outputs if n]) != 1 or layer.outputs[0] not in need:
            return None
        made = _one(problem, layer, need[layer.outputs[0]], need, constants)
        if made is None:
            return None
        layers.append(made)
    inputs: dict[str, torch.Tensor] = {}
    errors = dict(problem.errors)
    for name, value in problem.inputs.items():
        wanted = need.get(name)
        inputs[name] = value if wanted is None else value.index_select(1, wanted)
        if wanted is not None and name in errors:
            errors[name] = errors[name].expand(value.shape).index_select(1, wanted)
    return replace(
        problem,
        layers=tuple(reversed(layers)),
        constants=constants,
        inputs=inputs,
        errors=errors,
        got=problem.got.index_select(1, chosen),
        twin=None,
    )


def _one(
    problem: Problem,
    layer: Layer,
    chosen: torch.Tensor | None,
    need: dict[str, Any],
    constants: dict[str, Any],
) -> Layer | None:
    """The layer for the chosen channels; notes in `need` which channels of its operands it reads (None: all)."""

    def ask(name: str, what: torch.Tensor | None) -> bool:
        if name in need and not _same(need[name], what):
            return False
        need[name] = what
        return True

    def cut(place: int, axis: int) -> str | None:
        name = layer.inputs[place] if place < len(layer.inputs) else None
        if name is None:
            return None
        new = f"{name}/{layer.outputs[0]}/few{place}"
        constants[new] = problem.constants[name].index_select(axis, chosen)
        return new

    names = [n for n in layer.inputs if n is not None]
    if chosen is None:
        return layer if all(n in problem.constants or ask(n, None) for n in names) else None
    data = layer.inputs[0]
    rest = [n for n in names[1:] if n not in problem.constants]
    if layer.kind in ("conv", "conv_transpose"):
        w = problem.constants.get(layer.inputs[1] or "")
        if w is None or rest or data is None:
            return None
        group, channels = layer.attrs.get("group", 1), problem.values[data].shape[1]
        single = group == channels == w.shape[0] and w.shape[1] == 1
        if (group != 1 and not single) or not ask(data, chosen if single else None):
            return None
        axis = 0 if layer.kind == "conv" or single else 1
        inputs = (data, cut(1, axis), *((cut(2, 0),) if len(layer.inputs) > 2 else ()))
        return replace(layer, inputs=inputs, attrs={**layer.attrs, "group": len(chosen) if single else 1})
    if layer.kind == "batch_norm":
        if rest or data is None or not ask(data, chosen):
            return None
        return replace(layer, inputs=(data, *(cut(p, 0) for p in range(1, len(layer.inputs)))))
    if layer.kind in _PASS or layer.kind == "resize":
        if rest or data is None or not ask(data, chosen):
            return None
        if layer.kind == "instance_norm":
            return replace(layer, inputs=(data, *(cut(p, 0) for p in range(1, len(layer.inputs)))))
        if layer.kind == "resize":
            return _resize(problem, layer, constants, len(chosen))
        return layer
    if not kinds.get(layer.kind).elementwise:
        return None
    rank = problem.values[layer.outputs[0]].dim()
    inputs_: list[str | None] = []
    for place, name in enumerate(layer.inputs):
        if name is None:
            inputs_.append(None)
            continue
        value = problem.values[name]
        axis = 1 - (rank - value.dim()) if isinstance(value, torch.Tensor) else -1
        has = axis >= 0 and value.shape[axis] > 1
        if name in problem.constants:
            inputs_.append(cut(place, axis) if has else name)
        elif ask(name, chosen if has else None) and (not has or axis == 1):
            inputs_.append(name)
        else:
            return None
    return replace(layer, inputs=tuple(inputs_))


def _resize(problem: Problem, layer: Layer, constants: dict[str, Any], count: int) -> Layer | None:
    """Sizes given for all axes must name the smaller number of channels."""
    if layer.attrs.get("axes") is not None or len(layer.inputs) < 4 or layer.inputs[3] is None:
        return layer if layer.attrs.get("sizes") is None else None
    sizes = problem.constants.get(layer.inputs[3])
    if sizes is None:
        return None
    changed = sizes.clone()
    changed[1] = count
    new = f"{layer.inputs[3]}/few"
    constants[new] = changed
    return replace(layer, inputs=(*layer.inputs[:3], new))


def _same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and torch.equal(a, b))
