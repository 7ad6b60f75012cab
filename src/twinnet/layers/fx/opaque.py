"""Calls without a canonical form: the operator itself, run on float64 tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from twinnet.layers.fx.call import arguments, qualified
from twinnet.torch_versions import is_operator, pytree

__all__ = ["is_random", "opaque"]

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def opaque(node: Node, program: torch.nn.Module) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Inputs and attributes of the opaque layer for `node`.

    `attrs["run"]` takes the inputs' tensors and returns a tuple of tensors. Sizes known only at run time are
    integer tensors without dimensions. Branches and bodies of control flow are part of the function.
    """
    inputs = tuple(n for n in node.all_input_nodes if _branch(n, program) is None)
    attrs: dict[str, Any] = {"run": _runner(node, inputs, program), **_transform(node)}
    if is_random(node, program):
        attrs["random"] = True
    return tuple(n.name for n in inputs), attrs


def _transform(node: Node) -> dict[str, Any]:
    """Axes and lengths of a Fourier transform; nothing for other operators."""
    if not is_operator(node.target) or not qualified(node).startswith("fft_") or not node.all_input_nodes:
        return {}
    result, source = node.meta.get("val"), node.all_input_nodes[0].meta.get("val")
    given = arguments(node)
    if not isinstance(result, torch.Tensor) or not isinstance(source, torch.Tensor) or "dim" not in given:
        return {}
    dim = given["dim"]
    axes = (dim,) if isinstance(dim, int) else tuple(dim or range(result.dim()))
    # Half of a real signal's spectrum is left out, so the longer side is the signal.
    sizes = (max(result.shape[a], source.shape[a]) for a in axes)
    return {"axes": axes, "lengths": tuple(n for n in sizes if isinstance(n, int)) or (1,)}


def is_random(node: Node, program: torch.nn.Module) -> bool:
    """Whether this call of the operator draws random numbers, or a branch inside it does.

    An operator that can drop values but is called in eval mode, or with probability 0, draws none.
    """
    if is_operator(node.target):
        if torch.Tag.nondeterministic_seeded not in node.target.tags:
            return False
        given = arguments(node)
        if any(given.get(flag) is False for flag in ("train", "training")):
            return False
        return not any(name in given and given[name] == 0 for name in ("p", "dropout_p", "dropout"))
    branches = [_branch(n, program) for n in node.all_input_nodes]
    return any(is_random(inner, branch) for branch in branches if branch for inner in _calls(branch))


def _calls(branch: GraphModule) -> list[Node]:
    return [node for node in branch.graph.nodes if node.op == "call_function"]


def _branch(node: Node, program: torch.nn.Module) -> GraphModule | None:
    """The sub-graph behind a `get_attr` node, as used by control flow."""
    if node.op != "get_attr":
        return None
    found = getattr(program, str(node.target), None)
    return found if isinstance(found, GraphModule) else None


def _runner(
    node: Node, inputs: tuple[Node, ...], program: torch.nn.Module
) -> Callable[..., tuple[torch.Tensor, ...]]:
    target = node.target
    assert callable(target)
    scalars = {n for n in inputs if not isinstance(n.meta.get("val"), torch.Tensor)}

    @cache
    def branches() -> dict[Node, GraphModule]:
        found = {n: _branch(n, program) for n in node.all_input_nodes}
        return {n: _in_double(branch) for n, branch in found.items() if branch is not None}

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given: dict[Node, Any] = dict(branches())
        for n, tensor in zip(inputs, tensors, strict=True):
            given[n] = tensor.item() if n in scalars else tensor
        args, kwargs = map_arg(_wide_arguments(node), lambda n: given[n])
        with torch.no_grad():
            result = target(*args, **kwargs)
        results = result if isinstance(result, (list, tuple)) else (result,)
        return tuple(r if isinstance(r, torch.Tensor) else torch.tensor(r) for r in results)

    return run


def _in_double(branch: GraphModule) -> GraphModule:
    """A copy of a sub-graph whose constants and explicit dtypes are float64."""
    wide = copy.deepcopy(branch).double()
    for module in wide.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                node.args, node.kwargs = _wide_arguments(node)
            module.recompile()
    return wide


def _wide_arguments(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with every narrow float dtype made float64, also where it is only implied (`zeros(4)`)."""
    kwargs = dict(node.kwargs)
    if is_operator(node.target) and not node.all_input_nodes:
        result = node.meta.get("val")
        takes_dtype = any(argument.name == "dtype" for argument in node.target._schema.arguments)
        if takes_dtype and kwargs.get("dtype") is None and isinstance(result, torch.Tensor):
            kwargs["dtype"] = result.dtype
    return pytree.tree_map(_wide, (node.args, kwargs))


def _wide(argument: Any) -> Any:
    if not isinstance(argument, torch.dtype):
        return argument
    return torch.float64 if argument in _NARROW else torch.complex128 if argument.is_complex else argument
