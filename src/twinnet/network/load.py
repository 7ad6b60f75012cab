"""Load a network from an object, a file or a factory."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.errors import UsageError
from twinnet.files import close_file
from twinnet.network.base import Network
from twinnet.network.formats import FORMATS, reader_of
from twinnet.network.sniff import describe_file
from twinnet.pyfile import call_user, is_reference, kind_words, load_attribute, split_reference
from twinnet.trust import trusting

if TYPE_CHECKING:
    import torch

# torch is imported only where a network needs it: ONNX files are read without waiting for it.

__all__ = ["is_network", "load_network"]

Shapes = Mapping[str, Iterable[int]]


def load_network(
    ref: Any,
    *,
    shape: Shapes | Iterable[int] | None = None,
    example: Any = None,
    name: str | None = None,
    trust: bool = False,
) -> Network:
    """Load the network that `ref` refers to.

    `ref` is an `nn.Module`, `(module, example inputs)`, an `ExportedProgram`, an `onnx.ModelProto`, or a
    string or path: `file.py:factory`, `package.module:factory`, an .onnx or a .pt2 file (known by content), or the
    folder of an experiment.
    `shape` gives input shapes, `{"x": (1, 3, 640, 640)}`, or one shape for a single input. `example` gives example
    inputs of a module. `trust` lets code in a .pt2 file run; without it a file that holds any is refused.

    >>> import torch
    >>> load_network(torch.nn.Linear(2, 3), shape=(1, 2)).signature.inputs[0].shape
    (1, 2)
    """
    with trusting(trust):
        network = _load(ref, example, name or "")
    if shape is None:
        return network
    if isinstance(shape, Mapping):
        return network.with_shapes({str(key): tuple(dims) for key, dims in shape.items()})
    return network.with_shapes({"": tuple(shape)})


def is_network(ref: Any) -> bool:
    """Whether an object is a network: a module, an exported program or an ONNX model, not a name.

    >>> import torch
    >>> is_network(torch.nn.ReLU()), is_network("net.onnx")
    (True, False)
    """
    if isinstance(ref, Network) or (type(ref).__name__ == "ModelProto" and hasattr(ref, "graph")):
        return True
    # A module can exist only if torch is imported.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(ref, (torch.nn.Module, torch.export.ExportedProgram))


def _load(ref: Any, example: Any, name: str, path: Path | None = None) -> Network:
    if isinstance(ref, Network):
        return ref
    if isinstance(ref, (str, Path)):
        return _from_text(str(ref), example, name)
    if type(ref).__name__ == "ModelProto" and hasattr(ref, "graph"):
        return FORMATS["onnx"].load_reader()(ref, name=name)
    import torch

    from twinnet.network.exported import ExportedNetwork
    from twinnet.network.torch_network import TorchNetwork

    if isinstance(ref, torch.nn.Module):
        ref = _unwrap(ref)
        return TorchNetwork(ref, example=example, name=name, path=path)
    if isinstance(ref, torch.export.ExportedProgram):
        return ExportedNetwork(ref, name=name or "program")
    if isinstance(ref, tuple) and len(ref) == 2 and isinstance(ref[0], torch.nn.Module):
        return TorchNetwork(
            _unwrap(ref[0]), example=ref[1] if example is None else example, name=name, path=path
        )
    if isinstance(ref, type) and issubclass(ref, torch.nn.Module):
        raise UsageError(f"{ref.__name__} is a class, not a network", hint=f"make one: {ref.__name__}(...)")
    raise UsageError(
        f"{kind_words(ref)} is not a network",
        hint="give an nn.Module, (module, example inputs), an ExportedProgram, an ONNX model or a path",
    )


def _unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Unwrap torch.compile and data parallelism, whose `forward` has no named parameters."""
    import torch

    while True:
        inner = getattr(module, "_orig_mod", None)
        if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, torch.nn.Module):
            return module
        module = inner


def _from_text(ref: str, example: Any, name: str) -> Network:
    path = Path(ref)
    if path.exists():
        return _from_path(path, name).with_example(example)
    if is_reference(ref):
        return _from_factory(ref, example, name)
    raise UsageError(
        f"no such network: {ref}",
        hint=close_file(ref)
        or "give file.py:factory, package.module:factory, or an .onnx, .tflite or .pt2 file",
    )


def _from_path(path: Path, name: str) -> Network:
    if (reader := reader_of(path)) is not None:
        return reader.load(path, name=name)
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder, not a network",
            hint="name a file, file.py:factory, or the folder of an experiment (`twinnet lut new`)",
        )
    if path.suffix == ".py":
        raise UsageError(
            f"{path} is Python code: name the factory that makes the network", hint=f"write {path}:NAME"
        )
    seems = describe_file(path) or "no known network format"
    raise UsageError(f"{path} is not a network that can be read: it looks like {seems}")


def _from_factory(ref: str, example: Any, name: str) -> Network:
    import torch

    factory = load_attribute(ref, what="factory")
    place, attribute = split_reference(ref)
    source = Path(place) if place.endswith(".py") else None
    name = name or f"{source.stem if source else place.rpartition('.')[2]}.{attribute}"
    if isinstance(factory, torch.nn.Module):
        made = factory
    else:
        _refuse_arguments(ref, factory)
        made = call_user(factory, what="factory", name=f"{attribute}()")
    if isinstance(made, (str, Path, Network)) or not _is_network(made):
        weights = isinstance(made, Mapping) and any(isinstance(v, torch.Tensor) for v in made.values())
        raise UsageError(
            f"{ref} returned {_kind(made)}{' of weights' if weights else ''}, not a network",
            hint="build the network, call load_state_dict with these weights, and return the network"
            if weights
            else "a factory returns an nn.Module, or (module, example inputs)",
        )
    return _load(made, example, name, source)


def _is_network(made: Any) -> bool:
    import torch

    if isinstance(made, tuple):
        return len(made) == 2 and isinstance(made[0], torch.nn.Module)
    return (
        isinstance(made, (torch.nn.Module, torch.export.ExportedProgram))
        or type(made).__name__ == "ModelProto"
    )


def _refuse_arguments(ref: str, factory: Any) -> None:
    """Raise a `UsageError` for a factory that cannot be called without arguments."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return  # not callable, or without a signature: calling it says more
    named = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in named]
    if needed:
        raise UsageError(
            f"{ref} needs arguments ({', '.join(needed)}), and a factory is called without any",
            hint=f"give them defaults, or write a function without arguments that returns {factory.__name__}(...)",
        )


def _kind(made: Any) -> str:
    if isinstance(made, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in made) or 'nothing'}"
    return "nothing (None)" if made is None else kind_words(made)
