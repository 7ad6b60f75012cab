"""PyTorch modules as networks, and the names of inputs and outputs of exported programs."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from twinnet.errors import TwinnetError, UsageError, foreign
from twinnet.network.arrays import dtype_name, to_tensor
from twinnet.network.base import ModuleNetwork
from twinnet.network.export_failure import export_failure
from twinnet.network.outputs import functional
from twinnet.network.tree import (
    forward_parameters,
    name_inputs,
    name_outputs,
    name_tree,
    normalise_example,
    register_containers,
    takes_keywords,
)
from twinnet.progress import quiet
from twinnet.signature import Signature, TensorSpec
from twinnet.torch_versions import export, pytree, undecomposed

__all__ = ["TorchNetwork", "input_placeholders", "leaf_names", "name_tensors", "output_nodes"]

_LOUD = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")

Example = tuple[tuple[Any, ...], dict[str, Any]]


class TorchNetwork(ModuleNetwork):
    """An `nn.Module` in eval mode, with example inputs where they are known.

    Inputs are dicts of named tensors; plain numbers and flags of the example stay what they are.

    >>> net = TorchNetwork(torch.nn.Linear(2, 3), example=torch.ones(1, 2))
    >>> str(net.signature.inputs[0]), net.parameters
    ('input: float32 1x2', 9)
    >>> list(net.call({"input": np.zeros((1, 2), "float32")}))
    ['output']
    """

    format = "PyTorch"
    shapes_are_free = True

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        example: Any = None,
        name: str = "",
        path: Path | None = None,
    ) -> None:
        self.module = module
        self.was_training = module.training
        # A module may bring its own, under the name that PyTorch Lightning gave it. Any other goes first.
        self._brought = example is None
        if example is None:
            example = getattr(module, "example_input_array", None)
        self.example: Example | None = None if example is None else normalise_example(example)
        self._exported: dict[tuple[Any, ...], ExportedProgram | None] = {}
        self._tree: pytree.TreeSpec | None = None
        self._leaves: dict[str, Any] = {}
        module.eval()
        if self.example is not None:
            names, leaves, self._tree = name_inputs(module, *self.example)
            self._leaves = dict(zip(names, leaves))
        _materialise(module, self.example)
        super().__init__(
            name or type(module).__name__,
            Signature(tuple(self._specs())),
            parameters=sum(p.numel() for p in module.parameters()),
            path=path,
        )

    def _specs(self) -> list[TensorSpec]:
        if self.example is not None:
            return [
                TensorSpec(name, dtype_name(leaf.dtype), tuple(leaf.shape))
                for name, leaf in self._leaves.items()
                if isinstance(leaf, torch.Tensor)
            ]
        kind = next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.float32)
        return [
            TensorSpec(
                p.name,
                dtype_name(torch.int64 if _is_index(p.name) else kind),
                None,
                optional=p.default is not p.empty,
            )
            for p in forward_parameters(self.module)
        ]

    def unflatten(self, inputs: Mapping[str, Any]) -> Example:
        tensors = {name: to_tensor(value) for name, value in inputs.items()}
        if self._tree is None:
            return (), self._keywords(tensors)
        unknown = set(tensors) - set(self._leaves)
        if unknown:
            raise UsageError(
                f"{self.name} has no input {sorted(unknown)[0]!r}; its inputs: {', '.join(self._leaves)}"
            )
        missing = [n for n, v in self._leaves.items() if isinstance(v, torch.Tensor) and n not in tensors]
        if missing:
            raise UsageError(f"input {missing[0]} of {self.name} is missing")
        leaves = [tensors.get(name, value) for name, value in self._leaves.items()]
        combined: dict[str, Any] = pytree.tree_unflatten(leaves, self._tree)
        assert self.example is not None
        return self._split(combined, len(self.example[0]), set(self.example[1]))

    def _keywords(self, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
        known = {p.name for p in forward_parameters(self.module)}
        for name in tensors:
            if name not in known:
                raise UsageError(
                    f"{self.name} has no input {name!r}; its inputs: {', '.join(known)}",
                    hint="nested inputs need example inputs: let the factory return (module, example_inputs)",
                )
        return dict(tensors)

    def _split(self, combined: dict[str, Any], count: int, keywords: set[str]) -> Example:
        """Undo the binding: positional arguments in order, the others by keyword."""
        args = tuple(value for name, value in combined.items() if name not in keywords)
        assert len(args) == count, (len(args), count)
        return args, {name: value for name, value in combined.items() if name in keywords}

    def call(
        self, inputs: Mapping[str, np.ndarray | torch.Tensor], *, module: Callable[..., Any] | None = None
    ) -> dict[str, torch.Tensor]:
        args, kwargs = self.unflatten(_fresh(inputs))
        with torch.no_grad():
            outputs = name_tensors((self.module if module is None else module)(*args, **kwargs))
        self._learn({name: (value.dtype, value.shape) for name, value in outputs.items()})
        return outputs

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name, including buffers that are not saved."""
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def _learn(self, outputs: Mapping[str, tuple[torch.dtype, Iterable[Any]]]) -> None:
        """Fill in the outputs of the signature after a run; their shapes hold for that input only."""
        if not self.signature.outputs:
            specs = tuple(
                TensorSpec(name, dtype_name(dtype), tuple("?" for _ in shape))
                for name, (dtype, shape) in outputs.items()
            )
            self.signature = replace(self.signature, outputs=specs)

    def exported(self, inputs: Mapping[str, np.ndarray | torch.Tensor]) -> ExportedProgram | None:
        key = tuple((name, tuple(v.shape), str(v.dtype).removeprefix("torch.")) for name, v in inputs.items())
        if key not in self._exported:
            args, kwargs = self.unflatten(_fresh(inputs))
            self._exported[key] = self._export(args, kwargs)
        return self._exported[key]

    def _export(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram | None:
        try:
            return functional(self._traced(args, kwargs))
        except TwinnetError as error:
            self.failure = export_failure(self.module, error.__cause__ or error)
            return None

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
        # Its warnings are advice on how to write modules, not on what is computed.
        def trace() -> ExportedProgram:
            told = foreign("export the network", "torch.export")
            with torch.no_grad(), quiet(*_LOUD), _unprinted(), told:
                return undecomposed(export(self.module, *copy.deepcopy((args, kwargs))))

        try:
            return trace()
        except TwinnetError as error:
            if "register a pytree" not in str(error.__cause__):
                raise
        # It returns objects of its own; one run shows which.
        with torch.no_grad(), foreign("run the network", "torch"):
            result = self.module(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        register_containers(result)
        return trace()

    def bounds(self) -> dict[str, tuple[int, int]]:
        sizes = [m.num_embeddings for m in self.module.modules() if isinstance(m, torch.nn.Embedding)]
        integers = [s.name for s in self.signature.inputs if s.dtype.startswith(("int", "uint"))]
        return {name: (0, min(sizes) - 1) for name in integers} if sizes else {}

    def with_example(self, sample: Any) -> TorchNetwork:
        """The network with the structure of a Python `sample`, if it has no example.

        Dimensions stay dynamic: other samples may differ in size.

        >>> str(TorchNetwork(torch.nn.Linear(2, 3)).with_example(np.ones((1, 2))).signature.inputs[0])
        'input: float32 ?x?'
        """
        if sample is None or (self.example is not None and not self._brought):
            return self
        if isinstance(sample, Mapping) and not takes_keywords(self.module, sample):
            sample = (sample,)  # a dict that is one argument, not keywords
        kind = next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.float32)

        def tensor(leaf: Any) -> Any:
            if not isinstance(leaf, (np.ndarray, np.generic)):
                return leaf
            made = to_tensor(leaf)
            return made.to(kind) if made.dtype == torch.float64 else made

        example = pytree.tree_map(tensor, normalise_example(sample))
        made = TorchNetwork(self.module, example=example, name=self.name, path=self.path)
        made.was_training = self.was_training
        free = tuple(replace(spec, shape=("?",) * len(spec.shape or ())) for spec in made.signature.inputs)
        made.signature = replace(made.signature, inputs=free)
        return made


def _is_index(name: str) -> bool:
    """Whether the name of an input says that it holds whole numbers that pick rows of a table.

    >>> [_is_index(name) for name in ("input_ids", "tokens", "x", "grids")]
    [True, True, False, False]
    """
    return name.endswith("_ids") or name in ("ids", "tokens", "token", "indices", "index")


def name_tensors(result: Any) -> dict[str, torch.Tensor]:
    """The tensors of a result by name; plain numbers become scalars, None and text are left out."""
    names, leaves = name_outputs(result)
    found: dict[str, torch.Tensor] = {}
    for name, leaf in zip(names, leaves):
        if isinstance(leaf, torch.Tensor):
            found[name] = leaf.detach()
        elif isinstance(leaf, (bool, int, float)):
            found[name] = torch.tensor(leaf)
    return found


def leaf_names(program: ExportedProgram) -> list[str]:
    """Our names of all leaves of the program's arguments, constants included, in placeholder order."""
    signature = program.module_call_graph[0].signature
    parameters = list((signature.forward_arg_names if signature else None) or [])
    spec = program.call_spec.in_spec
    assert spec is not None
    args, kwargs = _filled(spec)
    # forward(self, *args): not every version of torch names the rest
    parameters += [f"args_{i}" for i in range(len(args) - len(parameters))]
    return name_tree({**dict(zip(parameters, args)), **kwargs})[0]


def input_placeholders(program: ExportedProgram) -> dict[str, str]:
    """Our name of each tensor input -> its placeholder in the graph of `program`."""
    user = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    return {
        n: s.arg.name for n, s in zip(leaf_names(program), user) if type(s.arg).__name__ == "TensorArgument"
    }


def output_nodes(program: ExportedProgram) -> dict[str, str]:
    """Our name of each tensor output -> the node of the graph of `program` that makes it."""
    spec = program.call_spec.out_spec
    assert spec is not None
    names, _ = name_outputs(_filled(spec))
    user = [s for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    return {n: s.arg.name for n, s in zip(names, user) if type(s.arg).__name__ == "TensorArgument"}


def _filled(spec: pytree.TreeSpec) -> Any:
    """A tree of this structure, with tensors for leaves: classes may look into what they hold."""
    return pytree.tree_unflatten([torch.empty(0) for _ in range(spec.num_leaves)], spec)


def _fresh(inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Copies: a network with in-place operators must not change the caller's sample."""
    return {name: to_tensor(value).clone() for name, value in inputs.items()}


def _unprinted() -> AbstractContextManager[Any]:
    """torch.export prints the graph up to where it stopped, which says less than the line."""
    return contextlib.redirect_stderr(io.StringIO())


def _materialise(module: torch.nn.Module, example: Example | None) -> None:
    """Initialise lazy modules with the example, and refuse weights without data."""
    tensors = list(module.parameters()) + list(module.buffers())
    if any(torch.nn.parameter.is_lazy(t) for t in tensors):
        if example is None:
            raise UsageError(
                "the module has lazy layers whose weights do not exist yet",
                hint="let the factory return (module, example_inputs)",
            )
        with torch.no_grad():
            module(*copy.deepcopy(example[0]), **copy.deepcopy(example[1]))
    if any(t.device.type == "meta" for t in module.parameters()):
        raise UsageError(
            "the module's weights are on the meta device: they hold no data", hint="load its weights first"
        )
