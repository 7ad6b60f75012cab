"""What every network has, and what those of PyTorch have beside it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twinnet.errors import EngineError
from twinnet.network.shapes import apply_shapes
from twinnet.signature import Signature

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from twinnet.network.export_failure import ExportFailure
    from twinnet.structure.change import StructureDiff

__all__ = ["ModuleNetwork", "Network"]

Self = TypeVar("Self", bound="Network")


class Network:
    """The reference side of a check. Treat it as read-only; `with_shapes` makes a changed copy.

    >>> net = Network("net", Signature(()), parameters=12)
    >>> net
    <Network net (network, 12 parameters)>
    """

    format = "network"
    shapes_are_free = False
    """Whether dimensions come from examples only, so that another shape may be stated."""
    external: Sequence[Path] = ()
    """Files beside its own that hold weights."""

    def __init__(
        self, name: str, signature: Signature, *, parameters: int = 0, path: Path | None = None
    ) -> None:
        self.name = name
        self.signature = signature
        self.parameters = parameters
        self.path = path

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        """Inclusive ranges of integer inputs that index a table, as far as the network shows them."""
        return {}

    def compared(self, a: Network, b: Network) -> StructureDiff | None:
        """Compare two networks, one of which is this one; None: compare their layers instead."""
        return None

    def with_shapes(self: Self, shapes: Mapping[str, Iterable[int]]) -> Self:
        """The same network with these input shapes in its signature."""
        if not shapes:
            return self
        changed = copy.copy(self)
        changed.signature = apply_shapes(self.signature, shapes, force=self.shapes_are_free)
        return changed

    def with_example(self: Self, sample: Any) -> Self:
        """A copy that takes inputs of a sample's structure, if the network needs an example; None changes nothing."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.format}, {self.parameters} parameters)>"


class ModuleNetwork(Network, ABC):
    """A network with a module of PyTorch, which a program of torch.export has as well."""

    module: torch.nn.Module
    was_training = False
    """Whether the module came in training mode."""
    failure: ExportFailure
    """Where and why torch.export failed, once `exported` has given None."""

    @abstractmethod
    def exported(self, inputs: Mapping[str, Any]) -> ExportedProgram | None:
        """A graph of functional ATen operators at the shapes of `inputs`; None if torch cannot export the network."""

    def program_for(
        self, inputs: Mapping[str, Any], *, called: str = "the network", advice: str = ""
    ) -> ExportedProgram:
        """Like `exported`, with an EngineError where there is none; `advice` is what else to try."""
        program = self.exported(inputs)
        if program is not None:
            return program
        raise EngineError(
            f"torch.export could not export {called}: {self.failure.what}",
            stage="export",
            log=self.failure.log,
            hint="; ".join(filter(None, (self.failure.hint, advice))),
        )

    def placeholders(self, program: ExportedProgram) -> dict[str, str]:
        """The placeholder of each input in `exported(...)`, in the order of the arguments."""
        from twinnet.network.torch_network import input_placeholders

        return input_placeholders(program)

    @abstractmethod
    def unflatten(self, inputs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call from named tensors; other values are those of the example."""

    @abstractmethod
    def call(
        self, inputs: Mapping[str, Any], *, module: Callable[..., Any] | None = None
    ) -> dict[str, torch.Tensor]:
        """Run the module (or a cast or compiled form of it) without gradients; outputs by name."""

    @abstractmethod
    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name."""
