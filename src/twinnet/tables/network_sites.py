"""A LUT network in PyTorch, its sites as its tables name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines.base import Session
from twinnet.errors import UsageError
from twinnet.job import Arrays, Job
from twinnet.lut.plan import Plan, Table
from twinnet.network.torch_network import TorchNetwork
from twinnet.site import Site
from twinnet.tables.plans import exported_plan, lut_net
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.network import Network
    from twinnet.tables.meaning import TableMeaning

__all__ = ["NetworkSites"]


class NetworkSites(Session):
    """A LUT network as a network: its sites in pixel units, under the names the tables use."""

    engine = "torch"

    def __init__(self, network: Network, job: Job) -> None:
        import torch

        net = lut_net(network)
        if net is None or not isinstance(network, TorchNetwork):
            raise UsageError(
                f"{network.name} is not a LUT network: its sites have no names among tables",
                hint="a factory that returns a twinnet.lut.LutNet, or a .lut.safetensors file as the network",
            )
        self.version = torch.__version__
        self.network = network
        self.signature = network.signature
        self.net = net
        self._job = job
        self._inputs = {name: name for name in job.inputs}

    @property
    def inputs(self) -> Mapping[str, str]:
        return self._inputs

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return (self.net.stage_names[-1],)

    @cached_property
    def _scales(self) -> dict[str, float]:
        return {s.name: s.scale for s in self.net.sites()}

    @property
    def sites(self) -> tuple[Site, ...]:
        last = self.output_tensors[0]
        return tuple(
            Site(
                s.name,
                s.name,
                s.kind,
                s.name.removesuffix(".sr"),
                role="output" if s.name == last else "inner",
            )
            for s in self.net.sites()
        )

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        with self._job.step("run"):
            (out,) = self.network.call(inputs).values()
        rows, columns = out.shape[-2:]
        return {"output": out.double().numpy().reshape(-1, 1, rows, columns) * 255.0}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        return self.retrace(inputs, {}, watch, builder)

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        import torch

        from twinnet.network.arrays import to_tensor
        from twinnet.tables.carry import refuse_views

        refuse_views(patches)
        for name, array in inputs.items():
            builder.add(name, np.asarray(array))
        image = to_tensor(np.array(next(iter(inputs.values())))).float()

        def note(name: str, tensor: torch.Tensor) -> torch.Tensor:
            if name in patches:
                tensor = torch.from_numpy(np.asarray(patches[name]) / self._scales[name]).to(tensor.dtype)
            if name in watch or name in self.output_tensors:
                builder.add(name, tensor.double().numpy() * self._scales[name])
            return tensor

        with self._job.step("run"), torch.no_grad():
            self.net(image, note)
        return builder.done()

    @cached_property
    def plan(self) -> Plan:
        """What the tables of this network compute, tabulated now where it has none."""
        return exported_plan(self.net, self._job)

    def tabulate(self, table: str, last: int) -> Table:
        """A Unit's table as it would be with its last node elsewhere."""
        from twinnet.lut.exporter import tabulate, units
        from twinnet.lut.grid import Grid

        unit = next(u for path, u in units(self.net) if path == f"{table}.unit")
        return tabulate(unit, Grid(unit.grid.step, unit.grid.nodes, last))

    @cached_property
    def meaning(self) -> TableMeaning:  # type: ignore[override]
        """The exact interpolation of this network sampled at its nodes."""
        from twinnet.tables.meaning import TableMeaning

        return TableMeaning(self)
