"""Lookup tables as twins: the tables in torch (`lut`) and the native integer engine (`lut-native`).

A LUT network is judged in integers. Every site of the twin is recomputed from the twin's own inputs to it, by the
meaning of the plan (`twinnet.lut.plan`), with the tables that the network's Units give: arithmetic must be exact, an
entry may be off by one unit where it was tabulated elsewhere. How far the interpolated tables are from the network
itself is approximation: reported beside each site, never a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines._plan_judge import PlanJudge
from twinnet.engines._plan_like import plan_like
from twinnet.engines._table_view import TableView, planes_of
from twinnet.engines.base import Abilities, Engine, Session, read_options
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays, Job
from twinnet.lut.plan import INPUT, Plan, Stage, Table
from twinnet.lut.plan import sites as plan_sites
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.network import Network
    from twinnet.pairing import Pair

__all__ = ["LutEngine", "LutNativeEngine", "NetworkSites"]


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
    executor: ClassVar[str] = "torch"

    def reference(self, network: Network) -> str | None:
        """Tables are judged beside the network they were made from."""
        return None if network.format in self.formats else "torch?sites=lut"

    def version(self) -> str:
        from twinnet import __version__

        return __version__

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(self, options, executor=_executor, threads=int)
        plan = plan_of(network, file, job)
        session = TableSession(
            plan, chosen.get("executor", self.executor), chosen.get("threads", job.threads), job, self
        )
        session.tuned, session.net = is_tuned(file), lut_net(network)
        return session


class LutNativeEngine(LutEngine):
    """The tables of a LUT network in the native engine, as deployed."""

    name: ClassVar[str] = "lut-native"
    summary: ClassVar[str] = "lookup tables, native integer engine"
    options: ClassVar[Mapping[str, str]] = {"threads": "a number (default: all cores)"}
    executor: ClassVar[str] = "native"

    def reference(self, network: Network) -> str | None:
        """The native engine is judged beside the tables."""
        return LutEngine.name


def _executor(text: str) -> str:
    if text not in ("torch", "numpy", "reference"):
        raise ValueError(text)
    return text


def plan_of(network: Any, file: str | None, job: Job) -> Plan:
    """The plan to run: that of `file`, else the network's own tables, else those its Units export now."""
    from twinnet.lut.model import open_tables

    if file is not None:
        return open_tables(Path(file)).plan
    if isinstance(tables := getattr(network, "tables", None), Path):
        return open_tables(tables).plan
    net = lut_net(network)
    if net is None:
        tables = getattr(network, "plan", None)
        if isinstance(tables, Plan):
            return tables
        raise UsageError(
            "the lut engines need a LUT network, or a file of tables",
            hint="a factory that returns a twinnet.lut.LutNet, a .lut.safetensors file, or --twin lut:FILE",
        )
    return exported_plan(net, job)


def is_tuned(file: str | None) -> bool:
    """Whether the entries in a file were trained on their own, so that they need not be near any network."""
    from twinnet.lut.file import read

    return file is not None and file.endswith(".safetensors") and read(Path(file)).tuned


def exported_plan(net: Any, job: Job) -> Plan:
    """The plan of a LUT network: as it is in table mode, else from a copy whose Units are tabulated now."""
    import copy

    from twinnet.lut import export, lower

    if net.mode == "table":
        return lower(net)
    with job.step("tabulate"):
        return lower(export(copy.deepcopy(net)))


def lut_net(network: Any) -> Any:
    """The `LutNet` behind a torch network, or None."""
    module = getattr(network, "module", None)
    if module is None:
        return None
    from twinnet.lut import LutNet

    return module if isinstance(module, LutNet) else None


class TableSession(Session):
    """A plan behind the session contract. Traces are in pixel units, one leading axis for the planes."""

    precision = "float32"
    tuned = False
    """Whether the tables were fine-tuned: scored beside their network, never judged by it."""
    net: Any = None
    """The LUT network these tables belong to, if there is one."""

    def __init__(self, plan: Plan, executor: str, threads: int | None, job: Job, engine: LutEngine) -> None:
        from twinnet.lut.executors import make
        from twinnet.signature import Signature

        self.engine = engine.name
        self.version = engine.version()
        self.plan = plan
        self._job = job
        self.signature = Signature(())
        self._inputs = {name: name for name in job.inputs}
        self._runner = TorchTables(plan) if executor == "torch" else make(plan, executor, threads)

    @property
    def inputs(self) -> Mapping[str, str]:
        return self._inputs

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return (self.plan.stages[-1].name,)

    @cached_property
    def scales(self) -> dict[str, float]:
        """From recorded integers to pixel units, by site."""
        return {s.name: 1.0 / s.denominator for s in plan_sites(self.plan)}

    @cached_property
    def _sites(self) -> tuple[Site, ...]:
        last = self.plan.stages[-1].name
        return tuple(
            Site(
                tensor=s.name,
                node=s.name,
                op=s.kind,
                module=s.name.removesuffix(".sr"),
                role="output" if s.name == last else "inner",
            )
            for s in plan_sites(self.plan)
        )

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._sites

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        with self._job.step("run"):
            out = self._runner.run(planes_of(inputs))
        # As at the sites: pixel units, one leading axis for the planes.
        return {"output": out.astype(np.float64)}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        for name, array in inputs.items():
            builder.add(name, np.asarray(array))
        seen: dict[str, list[np.ndarray]] = {}
        with self._job.step("run"):
            for plane in planes_of(inputs):
                self._runner.record(
                    np.ascontiguousarray(plane), lambda n, a: seen.setdefault(n, []).append(np.array(a))
                )
        for name, planes in seen.items():
            if name in watch or name in self.output_tensors:
                builder.add(name, np.stack(planes) * self.scales[name])
        return builder.done()

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        from twinnet.engines._table_patch import carried
        from twinnet.layers.read_plan import read_plan

        seen = self.trace(inputs, {s.tensor for s in self.sites}, TraceBuilder())
        # Only whole numerators exist here.
        given = {n: np.rint(np.asarray(a) / self.scales[n]) * self.scales[n] for n, a in patches.items()}
        changed = carried(read_plan(self.plan, next(iter(self._inputs))), seen, given)
        for name in seen:
            if name in watch or name in self.output_tensors or name in inputs:
                builder.add(name, given.get(name, changed.get(name, seen[name])))
        return builder.done()

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        """What executors run alone is a stage, on the registers of earlier ones; all before the tensor must agree."""
        order = {s.name: s.stage for s in plan_sites(self.plan)}
        stage = next((s for s in self.plan.stages if s.name == order.get(tensor)), None)
        if stage is None:
            raise EngineError(f"the tables have no site {tensor}", stage="cut")
        image = {name: np.asarray(values[name]) for name in self._inputs}
        registers = {INPUT: planes_of(image)[:, None]}
        for name in sorted({r for term in stage.terms for r in term.registers} - {INPUT}):
            if name not in known:
                raise EngineError(f"{stage.name} reads {name}, which is not known", stage="cut")
            registers[name] = np.rint(np.asarray(values[name])).astype(np.uint8)
        seen: dict[str, list[np.ndarray]] = {}
        with self._job.step("run"):
            for plane in range(len(registers[INPUT])):
                self._runner.record_stage(
                    stage,
                    {name: np.ascontiguousarray(array[plane]) for name, array in registers.items()},
                    lambda n, a: seen.setdefault(n, []).append(np.array(a)),
                )
        made = {name: np.stack(planes) * self.scales[name] for name, planes in seen.items()}
        for name in made:
            if name == tensor:
                break
            if name in known and not np.array_equal(made[name], np.asarray(values[name])):
                raise EngineError(f"{stage.name} alone gives other values at {name}, before it", stage="cut")
        return made[tensor]

    def view(self, twin: Session) -> Session:
        """A twin that runs these tables elsewhere, in pixel units."""
        return twin if isinstance(twin, TableSession) else TableView(twin, self.plan, self._inputs)

    def site_judge(self, pairs: Sequence[Pair], twin: Session, unit: float) -> Any:
        """Judges a twin that runs tables: against these tables, exactly."""
        plan = self.plan if self.net is None else judged_plan(self.net, self.plan, twin)
        return PlanJudge(plan, pairs, twin, slack=0, image=next(iter(self._inputs)))


def judged_plan(net: Any, own: Plan, twin: Session) -> Plan:
    """The tables a twin must hold: the network's own, in the form of the twin's; fine-tuned ones are their own."""
    if not isinstance(twin, TableSession):
        return own
    return twin.plan if twin.tuned else plan_like(net, own, twin.plan)


class TorchTables:
    """The torch form of a plan (`raise_plan`), rounding C, behind the executors' interface."""

    name = "torch"

    def __init__(self, plan: Plan) -> None:
        from twinnet.lut import raise_plan

        self.plan = plan
        self._net = raise_plan(plan).eval()

    def run(self, planes: np.ndarray) -> np.ndarray:
        """8-bit planes to 8-bit planes."""
        import torch

        with torch.no_grad():
            out = self._net(torch.from_numpy(np.ascontiguousarray(planes))[:, None].double() / 255)
        return torch.round(out * 255).to(torch.uint8).numpy()

    def record(self, plane: np.ndarray, record: Callable[[str, np.ndarray], None]) -> np.ndarray:
        """One plane, every site reported in integers."""
        import torch

        def note(name: str, tensor: torch.Tensor) -> None:
            record(name, np.rint(tensor[0].double().numpy()).astype(np.int64))

        with torch.no_grad():
            out = self._net(torch.from_numpy(np.ascontiguousarray(plane))[None, None].double() / 255, note)
        return torch.round(out * 255).to(torch.uint8).numpy()[0]

    def record_stage(
        self, stage: Stage, registers: dict[str, np.ndarray], record: Callable[[str, np.ndarray], None]
    ) -> np.ndarray:
        """One stage alone, every site of it reported in integers."""
        import torch

        def note(name: str, tensor: torch.Tensor) -> None:
            record(name, np.rint(tensor[0].double().numpy()).astype(np.int64))

        with torch.no_grad():
            given = {name: torch.from_numpy(array)[None].double() for name, array in registers.items()}
            return self._net.run_stage(stage.name, given, note)[0].to(torch.uint8).numpy()


class NetworkSites(Session):
    """A LUT network as a network: its sites in pixel units, under the names the tables use."""

    engine = "torch"

    def __init__(self, network: Any, job: Job) -> None:
        import torch

        self.version = torch.__version__
        self.network = network
        self.signature = network.signature
        self.net = lut_net(network)
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

        from twinnet.engines._table_patch import refuse_views
        from twinnet.network.arrays import to_tensor

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

    def _tabulate(self, table: str, last: int) -> Table:
        """A Unit's table as it would be with its last node elsewhere."""
        from twinnet.lut.exporter import tabulate, units
        from twinnet.lut.grid import Grid

        unit = next(u for path, u in units(self.net) if path == f"{table}.unit")
        return tabulate(unit, Grid(unit.grid.step, unit.grid.nodes, last))

    def view(self, twin: Session) -> Session:
        """A twin that runs the tables of this network elsewhere, in pixel units."""
        return twin if isinstance(twin, TableSession) else TableView(twin, self.plan, self._inputs)

    def site_judge(self, pairs: Sequence[Pair], twin: Session, unit: float) -> Any:
        """Judges tables against the exact interpolation of this network sampled at its nodes."""
        plan, image = judged_plan(self.net, self.plan, twin), next(iter(self._inputs))
        slack = 0 if plan is getattr(twin, "plan", None) else 1
        return PlanJudge(plan, pairs, twin, slack=slack, image=image, tabulate=self._tabulate)
