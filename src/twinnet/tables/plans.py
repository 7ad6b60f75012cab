"""From a network or a file to the plan of its tables."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.errors import UsageError
from twinnet.job import Job
from twinnet.lut.plan import Plan
from twinnet.network import ModuleNetwork, Network
from twinnet.tables.network import HoldsTables, TableNetwork

if TYPE_CHECKING:
    from twinnet.lut import LutNet

__all__ = ["exported_plan", "is_tuned", "lut_net", "plan_of"]


def plan_of(network: Network | None, file: str | None, job: Job) -> Plan:
    """The plan to run: that of `file`, else the network's own tables, else those its Units export now."""
    from twinnet.lut.model import open_tables

    if file is not None:
        return open_tables(Path(file)).plan
    if isinstance(network, HoldsTables) and network.tables is not None:
        return open_tables(network.tables).plan
    if isinstance(network, TableNetwork):
        return network.plan
    net = lut_net(network)
    if net is None:
        raise UsageError(
            "the lut engines need a LUT network, or a file of tables",
            hint="a factory that returns a twinnet.lut.LutNet, a .lut.safetensors file, or --twin lut:FILE",
        )
    return exported_plan(net, job)


def is_tuned(network: Network | None, file: str | None) -> bool:
    """Whether the entries of tables were trained on their own, so that they need not be near any network."""
    from twinnet.lut.file import read

    if file is None:
        return isinstance(network, TableNetwork) and network.file.tuned
    return file.endswith(".safetensors") and read(Path(file)).tuned


def exported_plan(net: LutNet, job: Job) -> Plan:
    """The plan of a LUT network: as it is in table mode, else from a copy whose Units are tabulated now."""
    from twinnet.lut import export, lower

    if net.mode == "table":
        return lower(net)
    with job.step("tabulate"):
        return lower(export(copy.deepcopy(net)))


def lut_net(network: Network | None) -> LutNet | None:
    """The `LutNet` behind a torch network, or None."""
    if not isinstance(network, ModuleNetwork):
        return None
    from twinnet.lut import LutNet

    return network.module if isinstance(network.module, LutNet) else None
