"""The canonical graph: layers in execution order over named values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from twinnet.layers.walk import walk_back
from twinnet.site import Role, Site, short_name

if TYPE_CHECKING:
    import torch

__all__ = ["Graph", "Layer", "fresh_name"]


def fresh_name(base: str, used: set[str]) -> str:
    """A value name that is not used yet, and is from now on.

    >>> used = {"x"}
    >>> fresh_name("x", used), fresh_name("y", used), sorted(used)
    ('x.2', 'y', ['x', 'x.2', 'y'])
    """
    name, count = base, 1
    while name in used:
        count += 1
        name = f"{base}.{count}"
    used.add(name)
    return name


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator in canonical form.

    `kind` names an entry of `twinnet.layers.kinds`; `attrs` are that kind's own attributes (NCHW, OIHW,
    explicit pads, non-negative axes where the rank is known). `inputs` may hold `None` for an absent optional
    operand. `op` is the operator's name in the original graph; `module`, `call` and `source` say where it is in the
    user's code. A graph fragment without a canonical form becomes kind "opaque" with `attrs["run"]`, a function of
    torch tensors.

    >>> Layer("conv", ("x", "w", None), ("y",), {"strides": (1, 1), "pads": (1, 1, 1, 1)}).kind
    'conv'
    """

    kind: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    node: str = ""
    op: str = ""
    module: str = ""
    call: int = 0
    source: str = ""

    @property
    def label(self) -> str:
        """Module and operator, for people to read.

        >>> Layer("linear", ("x", "w"), ("y",), module="head").label
        'head linear'
        """
        return f"{self.module or short_name(self.outputs[0])} {self.op or self.kind}".strip()

    def site(self, index: int = 0, *, role: Role = "inner") -> Site:
        """The place where one of its outputs can be observed."""
        name = self.outputs[index]
        return Site(name, self.node or name, self.op, self.module, self.call, index, self.source, role)


@dataclass(frozen=True)
class Graph:
    """Layers in execution order, the constants they read, and the names of inputs and outputs.

    `dtypes` and `shapes` hold what the original graph declares, if anything (torch dtypes; symbolic dimensions of a
    shape are strings). The declared dtype decides what a
    `cast`-free float value is rounded to in the network; evaluation itself is always in float64.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: Mapping[str, torch.Tensor] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """Index of the layer that makes each value."""
        return {name: i for i, layer in enumerate(self.layers) for name in layer.outputs if name}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[int, ...]]:
        """Indices of the layers that read each value, in order."""
        found: dict[str, list[int]] = {}
        for i, layer in enumerate(self.layers):
            for name in dict.fromkeys(layer.inputs):
                if name is not None:
                    found.setdefault(name, []).append(i)
        return {name: tuple(indices) for name, indices in found.items()}

    @cached_property
    def static(self) -> frozenset[str]:
        """Values that depend on no input: the constants, and what is computed from them alone.

        >>> import torch
        >>> layers = Layer("neg", ("w",), ("v",)), Layer("add", ("x", "v"), ("y",))
        >>> sorted(Graph(layers, ("x",), ("y",), {"w": torch.ones(1)}).static)
        ['v', 'w']
        """
        static = set(self.constants)
        for layer in self.layers:
            if all(name is None or name in static for name in layer.inputs):
                static.update(name for name in layer.outputs if name)
        return frozenset(static)

    def segment(
        self, targets: Iterable[str], known: Iterable[str]
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Layers needed to compute `targets` from the values in `known`, and the values they start from.

        Constants are free. Values that are neither known nor produced by a layer are graph inputs and end the
        walk.

        >>> g = Graph((Layer("relu", ("x",), ("y",)), Layer("neg", ("y",), ("z",))), ("x",), ("z",))
        >>> g.segment(["z"], ["y"])
        ((1,), ('y',))
        """
        targets = tuple(targets)
        layers, ends = walk_back(targets, set(known) - set(targets), self.producer, self._reads)
        return tuple(layers), tuple(name for name in ends if name not in self.constants)

    def _reads(self, index: int) -> Iterator[str]:
        return (name for name in self.layers[index].inputs if name is not None)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)
