"""Names for the tensors inside nested inputs and outputs (tuples, dicts, dataclasses, keyword arguments).

Inputs are named by the parameter of `forward` and the path below it: `x`, `state.h`, `pair.0`. The order is
the one in which `torch.export` numbers its placeholders, so names map to placeholders by position.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from twinnet.errors import UsageError, foreign_as
from twinnet.torch_versions import pytree

__all__ = [
    "forward_parameters",
    "name_inputs",
    "name_outputs",
    "name_tree",
    "normalise_example",
    "register_containers",
    "register_dataclasses",
    "takes_keywords",
]


def forward_parameters(module: torch.nn.Module) -> list[inspect.Parameter]:
    """The parameters of `forward` that can be tensors: not those whose default is a number or a flag."""
    found = []
    for parameter in inspect.signature(module.forward).parameters.values():
        default = parameter.default
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if default is parameter.empty or default is None or isinstance(default, torch.Tensor):
            found.append(parameter)
    return found


def takes_keywords(module: torch.nn.Module, names: Collection[str]) -> bool:
    """Whether `forward` can be called with arguments of these names alone, a `**rest` included."""
    parameters = inspect.signature(module.forward).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        needed = [p for p in forward_parameters(module) if p.default is p.empty]
        return {p.name for p in needed} <= set(names)
    return set(names) <= {p.name for p in forward_parameters(module)}


def normalise_example(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs in any accepted form as `(args, kwargs)`.

    A tensor, a tuple of positional arguments, a dict of keyword arguments, or `(args, kwargs)` itself.

    >>> normalise_example({"x": 1}), normalise_example(((1, 2), {"y": 3}))
    (((), {'x': 1}), ((1, 2), {'y': 3}))
    """
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple) and not hasattr(example, "_fields"):
        if len(example) == 2 and isinstance(example[0], (tuple, list)) and isinstance(example[1], Mapping):
            return tuple(example[0]), dict(example[1])
        return example, {}
    if isinstance(example, list):
        return tuple(example), {}
    return (example,), {}


def register_dataclasses(tree: Any) -> None:
    """Register the dataclasses inside `tree` with torch, which otherwise treats each as one opaque value."""
    seen: set[type] = set()
    while True:
        new = {
            type(leaf)
            for leaf in pytree.tree_leaves(tree)
            if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)
        } - seen
        if not new:
            return
        for kind in new:
            seen.add(kind)
            name = kind.__qualname__

            def refused(error: BaseException, name: str = name) -> UsageError:
                return UsageError(f"the dataclass {name} cannot hold inputs or outputs: {error}")

            with foreign_as(refused):
                torch.export.register_dataclass(kind, serialized_type_name=f"{kind.__module__}.{name}")


@dataclasses.dataclass(frozen=True)
class _Kept:
    """What a container holds beside its tensors; two are the same structure if their fields are."""

    names: tuple[str, ...]
    rest: dict[str, Any] = dataclasses.field(compare=False)


def register_containers(tree: Any) -> None:
    """Register the objects inside `tree` that hold tensors in their attributes, such as caches of keys and values."""
    while True:
        new = {type(leaf) for leaf in pytree.tree_leaves(tree) if _holds_tensors(leaf)}
        if not new:
            return
        for kind in new:
            _register(kind)


def _holds_tensors(value: Any, depth: int = 4) -> bool:
    """Whether an object of an unregistered class has tensors in its attributes, or in containers there."""
    if (
        isinstance(value, (torch.Tensor, torch.nn.Module, type))
        or not hasattr(value, "__dict__")
        or not depth
    ):
        return False
    leaves = pytree.tree_leaves(list(vars(value).values()))
    return any(isinstance(leaf, torch.Tensor) or _holds_tensors(leaf, depth - 1) for leaf in leaves)


def _register(kind: type) -> None:
    def parts(value: Any) -> tuple[list[tuple[str, Any]], _Kept]:
        held = {
            name: inner
            for name, inner in vars(value).items()
            if any(isinstance(v, torch.Tensor) or _holds_tensors(v) for v in pytree.tree_leaves(inner))
        }
        rest = {name: inner for name, inner in vars(value).items() if name not in held}
        return list(held.items()), _Kept(tuple(held), rest)

    def flatten(value: Any) -> tuple[list[Any], _Kept]:
        found, kept = parts(value)
        return [inner for _, inner in found], kept

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], _Kept]:
        found, kept = parts(value)
        return [(pytree.GetAttrKey(name), inner) for name, inner in found], kept

    def unflatten(values: Iterable[Any], kept: _Kept) -> Any:
        made = object.__new__(kind)
        made.__dict__.update({**kept.rest, **dict(zip(kept.names, values))})
        return made

    name = f"{kind.__module__}.{kind.__qualname__}"
    pytree.register_pytree_node(
        kind, flatten, unflatten, serialized_type_name=name, flatten_with_keys_fn=with_keys
    )


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The leaves of a tree with their paths; a node that was registered without keys is counted through."""
    node = pytree.SUPPORTED_NODES.get(pytree._get_node_type(tree))
    if node is None:
        yield path, tree
    elif node.flatten_with_keys_fn is not None:
        for key, inner in node.flatten_with_keys_fn(tree)[0]:
            yield from _paths(inner, (*path, key))
    else:
        for i, inner in enumerate(node.flatten_fn(tree)[0]):
            yield from _paths(inner, (*path, pytree.SequenceKey(i)))


def name_inputs(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[str], list[Any], pytree.TreeSpec]:
    """Names and leaves of a call's arguments in placeholder order, and the tree of the combined dict.

    What a `*rest` takes is named `rest_0`, `rest_1`, as torch.export does.
    """
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind_partial(*args).arguments
    except TypeError as error:
        raise UsageError(f"the example inputs do not fit {type(module).__name__}.forward: {error}") from error
    combined: dict[str, Any] = {}
    for name, value in bound.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            combined.update({f"{name}_{i}": item for i, item in enumerate(value)})
        else:
            combined[name] = value
    return name_tree({**combined, **kwargs})


def name_tree(combined: Mapping[str, Any]) -> tuple[list[str], list[Any], pytree.TreeSpec]:
    """Names and leaves of a dict of arguments, and its tree.

    >>> name_tree({"x": 1, "state": {"h": 2, "c": (3,)}})[0]
    ['x', 'state.h', 'state.c.0']
    """
    register_dataclasses(combined)
    flat, spec = list(_paths(combined)), pytree.tree_structure(combined)
    return _unique([".".join(_key(k) for k in path) for path, _ in flat]), [leaf for _, leaf in flat], spec


def name_outputs(tree: Any) -> tuple[list[str], list[Any]]:
    """Names and leaves of what a network returned: `output`, `output_0`, keys and fields, nested by dots.

    >>> name_outputs({"a": 1, "b": (2, 3)})
    (['a', 'b.0', 'b.1'], [1, 2, 3])
    >>> name_outputs((1, {"h": 2}))
    (['output_0', 'output_1.h'], [1, 2])
    """
    register_dataclasses(tree)
    register_containers(tree)
    flat, names = list(_paths(tree)), []
    for path, _ in flat:
        parts = [_key(k) for k in path]
        if not parts:
            parts = ["output"]
        elif isinstance(path[0], pytree.SequenceKey):
            parts[0] = f"output_{parts[0]}"
        names.append(".".join(parts))
    return _unique(names), [leaf for _, leaf in flat]


def _key(key: Any) -> str:
    if isinstance(key, pytree.MappingKey):
        return str(key.key)
    if isinstance(key, pytree.SequenceKey):
        return str(key.idx)
    if isinstance(key, pytree.GetAttrKey):
        return str(key.name)
    return str(key).strip(".[]'\"")


def _unique(names: list[str]) -> list[str]:
    """Make names unique: a dict key with a dot may equal the path of another value."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            candidate, n = f"{name}_{n}", n + 1
        taken.add(candidate)
        result.append(candidate)
    return result
