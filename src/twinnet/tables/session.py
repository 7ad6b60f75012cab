"""A plan of tables as a session: every site in pixel units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines.base import Engine, Session
from twinnet.engines.timing import WARM_UP, LayerTime, Span, Stopwatch, Timed
from twinnet.errors import EngineError
from twinnet.job import Arrays, Job
from twinnet.lut.plan import INPUT, Plan, Stage
from twinnet.lut.plan import sites as plan_sites
from twinnet.signature import Signature
from twinnet.site import Site
from twinnet.tables.view import planes_of
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    import torch

    from twinnet.lut import LutNet
    from twinnet.tables.meaning import TableMeaning

__all__ = ["TableSession"]


class TableSession(Session):
    """A plan behind the session contract. Traces are in pixel units, one leading axis for the planes."""

    precision = "float32"
    tuned = False
    """Whether the tables were fine-tuned: scored beside their network, never judged by it."""
    net: LutNet | None = None
    """The LUT network these tables belong to, if there is one."""

    def __init__(self, plan: Plan, executor: str, threads: int | None, job: Job, engine: Engine) -> None:
        from twinnet.lut.executors import make

        self.engine = engine.name
        self.version = engine.version()
        self.plan = plan
        self._job = job
        self.signature = Signature(())
        self._inputs = {name: name for name in job.inputs}
        if job.place.name:
            from twinnet.tables.board import BoardTables

            self._runner: Any = BoardTables(plan, executor, job)
        else:
            self._runner = TorchTables(plan) if executor == "torch" else make(plan, executor, threads)

    def close(self) -> None:
        if self._job.place.name:
            self._runner.close()

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
    def sites(self) -> tuple[Site, ...]:  # type: ignore[override]
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
        from twinnet.tables.carry import carried
        from twinnet.tables.read import read_plan

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

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        """The native engine times its stages; no other executor does."""
        run = getattr(self._runner, "run_timed", None)
        if run is None:
            raise EngineError(
                f"the {self._runner.name} executor does not time its stages",
                stage="profile",
                hint="profile the native engine: --twin lut-native",
            )
        planes = planes_of(inputs)
        bare, watched = Stopwatch(), Stopwatch()
        spans: dict[str, list[Span]] = {stage.name: [] for stage in self.plan.stages}
        with self._job.step("run"):
            for number in range(-WARM_UP, max(repeats, 1)):
                bare(lambda: self._runner.run(planes))
                _, times = watched(lambda: run(planes))
                for name, (begun, ended) in times.items() if number >= 0 else ():
                    spans[name].append(Span(number, ended - begun, begun))
        made = {stage: tuple(s.name for s in plan_sites(self.plan) if s.stage == stage) for stage in spans}
        ways = self._runner.describe()
        steps = tuple(LayerTime(n, "stage", tuple(seen), made[n], ways[n]) for n, seen in spans.items())
        return Timed(
            steps,
            tuple(watched.seconds[WARM_UP:]),
            tuple(bare.seconds[WARM_UP:]),
            tuple(bare.cpu[WARM_UP:]),
            looked_cpu=tuple(watched.cpu[WARM_UP:]),
        )

    @property
    def size(self) -> int | None:
        """The bytes of the tables."""
        return sum(
            part.nbytes
            for table in self.plan.tables.values()
            for part in (table.values, table.index, table.coarse)
            if part is not None
        )

    @cached_property
    def meaning(self) -> TableMeaning:  # type: ignore[override]
        """These tables, exactly."""
        from twinnet.tables.meaning import TableMeaning

        return TableMeaning(self)


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

        with torch.no_grad():
            image = torch.from_numpy(np.ascontiguousarray(plane))[None, None].double() / 255
            out = self._net(image, _in_integers(record))
        return torch.round(out * 255).to(torch.uint8).numpy()[0]

    def record_stage(
        self, stage: Stage, registers: dict[str, np.ndarray], record: Callable[[str, np.ndarray], None]
    ) -> np.ndarray:
        """One stage alone, every site of it reported in integers."""
        import torch

        with torch.no_grad():
            given = {name: torch.from_numpy(array)[None].double() for name, array in registers.items()}
            return self._net.run_stage(stage.name, given, _in_integers(record))[0].to(torch.uint8).numpy()


def _in_integers(record: Callable[[str, np.ndarray], None]) -> Callable[[str, torch.Tensor], None]:
    return lambda name, tensor: record(name, np.rint(tensor[0].double().numpy()).astype(np.int64))
