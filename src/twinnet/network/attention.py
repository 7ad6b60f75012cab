"""Attention of any rank as attention of four dimensions, which is what converters take."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx import Node

__all__ = ["four_dimensional"]

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def four_dimensional(program: ExportedProgram) -> ExportedProgram:
    """The program, changed so that all attention is [batch, heads, length, size]: other ranks are reshaped around it.

    >>> class Single(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.nn.functional.scaled_dot_product_attention(x, x, x)
    >>> program = torch.export.export(Single(), (torch.ones(2, 3, 4),)).run_decompositions({})
    >>> [n.meta["val"].dim() for n in four_dimensional(program).graph.nodes if n.target is _ATTENTION]
    [4]
    """
    for node in list(program.graph.nodes):
        if node.target is not _ATTENTION or node.meta["val"].dim() == 4:
            continue
        back = _reshaped(node)
        if back is None:
            continue
        for spec in program.graph_signature.output_specs:
            if spec.arg.name == node.name:
                spec.arg = TensorArgument(name=back.name)
        program.graph_module.recompile()
    return program


def _reshaped(node: Node) -> Node | None:
    """The value of the call, from attention of four dimensions; None if sizes are not known."""
    values = [a for a in node.args[:3] if isinstance(a, Node)]
    shapes = [tuple(v.meta["val"].shape) for v in values]
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    lead = shapes[0][:-3]
    if any(not isinstance(n, int) for shape in shapes for n in shape) or node.kwargs.get("enable_gqa"):
        return None
    if len(values) < 3 or any(shape[:-3] != lead for shape in shapes):
        return None

    def called(target: Any, *args: Any) -> Node:
        made = node.graph.call_function(target, args)
        made.meta = {**node.meta, "val": target(*(a.meta["val"] if isinstance(a, Node) else a for a in args))}
        return made

    def flat(value: Node, shape: tuple[int, ...]) -> Node:
        heads = shape[-3] if len(shape) > 2 else 1
        return called(torch.ops.aten.reshape.default, value, [prod(shape[:-3]), heads, *shape[-2:]])

    end = list(node.meta["val"].shape)
    with node.graph.inserting_before(node):
        new = [flat(value, shape) for value, shape in zip(values, shapes, strict=True)]
        if isinstance(mask, Node):
            wide = [*shapes[0][:-1], shapes[1][-2]]
            mask = flat(called(torch.ops.aten.expand.default, mask, wide), tuple(wide))
    rest = node.args[4:]
    node.args = (*new, mask, *rest)
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "attn_mask"}
    before = node.meta["val"]
    node.meta["val"] = new[0].meta["val"].new_empty([*new[0].meta["val"].shape[:-1], end[-1]])
    with node.graph.inserting_after(node):
        back = node.graph.call_function(torch.ops.aten.reshape.default, (node, end))
    back.meta = {**node.meta, "val": before}
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)
    return back
