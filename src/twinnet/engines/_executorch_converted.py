"""A network lowered by ExecuTorch here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_made import Lowering, Made, make, program_of
from twinnet.engines._executorch_names import integer_biases, quantised_names
from twinnet.engines._executorch_taps import TappedSession
from twinnet.engines.torch import own_precision
from twinnet.executorch import Record
from twinnet.job import Arrays
from twinnet.network import Network
from twinnet.signature import by_position

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["ConvertedSession"]


class ConvertedSession(TappedSession):
    """A network lowered by ExecuTorch; its tensors have the names of the network's own graph."""

    def __init__(self, network: Network, how: Lowering, home: Home, *, taps: bool) -> None:
        super().__init__(home)
        self.signature = network.signature
        self._network, self._how = network, how
        self._all: dict[Any, Made] = {}
        self.precision = "int8" if how.quantize else own_precision(network)
        self._names = by_position(self._job.inputs, [spec.name for spec in network.signature.inputs])
        self._made(self._job.inputs)
        if how.delegate != "none" and taps:
            self._tapped, self.notes = self._tried_taps()

    def _mine(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return {self._names.get(name, name): np.asarray(array) for name, array in inputs.items()}

    def _made(self, inputs: Arrays) -> Made:
        mine = self._mine(inputs)
        key = tuple((name, array.shape, array.dtype.name) for name, array in mine.items())
        if key not in self._all:
            self._all[key] = make(self._network, mine, self._how, self._home)
        return self._all[key]

    def _program(self, inputs: Arrays) -> tuple[Path, list[Any]]:
        made = self._made(inputs)
        return made.pte, made.given(self._mine(inputs))

    def _record(self, inputs: Arrays) -> Record:
        return self._known_record(inputs)

    # -- names ---------------------------------------------------------------------------------------------------

    @cached_property
    def _layers(self) -> Graph:  # pyright: ignore[reportIncompatibleMethodOverride]
        from twinnet.layers.read_fx import read_fx

        found = read_fx(self._made(self._job.inputs).program)
        if self._how.quantize and self._how.delegate != "none":
            return integer_biases(found)
        return found

    def graph(self) -> Graph:
        return self._layers

    @property
    def inputs(self) -> dict[str, str]:
        from twinnet.network import input_placeholders

        program = self._made(self._job.inputs).program
        names = [n for n, _ in self._made(self._job.inputs).arguments if n is not None]
        back = {mine: name for name, mine in self._names.items()}
        own = dict(zip(names, input_placeholders(program).values(), strict=True))
        return {back.get(name, name): value for name, value in own.items()}

    @cached_property
    def output_tensors(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from twinnet.network import output_nodes

        return tuple(output_nodes(self._made(self._job.inputs).program).values())

    @cached_property
    def provenance(self) -> Mapping[str, str] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Where the program was quantised: its values by name, those with a batch norm folded in by that."""
        if not self._how.quantize:
            return None
        ours = program_of(self._network, self._mine(self._job.inputs))
        return quantised_names(ours, self._made(self._job.inputs).program)
