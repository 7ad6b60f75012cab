"""Lookup tables as twins: the tables in torch (`lut`) and the native integer engine (`lut-native`).

A LUT network is judged in integers. Every site of the twin is recomputed from the twin's own inputs to it, by the
meaning of the plan (`twinnet.lut.plan`), with the tables that the network's Units give: arithmetic must be exact, an
entry may be off by one unit where it was tabulated elsewhere. How far the interpolated tables are from the network
itself is approximation: reported beside each site, never a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from twinnet.engines.base import Abilities, Engine, Session, one_of, read_options
from twinnet.errors import UsageError
from twinnet.job import Job

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["LutEngine", "LutNativeEngine"]


class LutEngine(Engine):
    """The tables of a LUT network, run by the plain interpreter or in torch."""

    name: ClassVar[str] = "lut"
    summary: ClassVar[str] = "lookup tables, exact integers"
    abilities: ClassVar[Abilities] = Abilities(
        capture=True, segment="cheap", note="all sites, in pixel units"
    )
    options: ClassVar[Mapping[str, str]] = {"executor": "torch|numpy|reference (default torch)"}
    suffixes: ClassVar[tuple[str, ...]] = (".safetensors",)
    formats: ClassVar[tuple[str, ...]] = ("lookup tables",)
    board: ClassVar[tuple[str, ...] | None] = ("numpy",)
    executor: ClassVar[str] = "torch"

    def version(self) -> str:
        from twinnet import __version__

        return __version__

    def reference(self, network: Network) -> str | None:
        """Tables are judged beside the network they were made from."""
        return None if network.format in self.formats else "torch?sites=lut"

    def named_sites(self, network: Network, job: Job) -> Session:
        from twinnet.tables.network_sites import NetworkSites

        return NetworkSites(network, job)

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        from twinnet.tables.plans import is_tuned, lut_net, plan_of
        from twinnet.tables.session import TableSession

        chosen = read_options(self, options, executor=one_of("torch", "numpy", "reference"), threads=int)
        executor, threads = chosen.get("executor", self.executor), chosen.get("threads", job.threads)
        if job.place.name:
            if chosen.get("executor") == "torch":
                raise UsageError("the tables of a board need no torch", hint="executor=numpy or reference")
            executor = chosen.get("executor", "numpy")
            job.place.versions(("numpy",))
        session = TableSession(plan_of(network, file, job), executor, threads, job, self)
        session.tuned, session.net = is_tuned(network, file), lut_net(network)
        return session


class LutNativeEngine(LutEngine):
    """The tables of a LUT network in the native engine, as deployed."""

    name: ClassVar[str] = "lut-native"
    summary: ClassVar[str] = "lookup tables, native integer engine"
    abilities: ClassVar[Abilities] = Abilities(
        capture=True, segment="cheap", profile=True, note="all sites, in pixel units"
    )
    options: ClassVar[Mapping[str, str]] = {"threads": "a number (default: all cores)"}
    executor: ClassVar[str] = "native"
    board: ClassVar[tuple[str, ...] | None] = None

    def reference(self, network: Network) -> str | None:
        """The native engine is judged beside the same tables."""
        return LutEngine.name
