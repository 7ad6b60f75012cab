"""onnx.reference: slow but independent of every optimiser, which makes it a good reference for small networks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines.base import Abilities, Engine, Session, Standalone, read_options
from twinnet.engines.onnx_session import OnnxSession
from twinnet.errors import MissingExtra, foreign
from twinnet.job import Arrays, Job
from twinnet.site import Site
from twinnet.time_limit import time_up
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    import onnx

    from twinnet.network import Network
    from twinnet.onnx.export import OnnxArtefact

__all__ = ["OnnxReferenceEngine"]


class OnnxReferenceEngine(Engine):
    """Runs ONNX node by node in numpy."""

    name: ClassVar[str] = "onnx-reference"
    extra: ClassVar[str | None] = "onnx"
    summary: ClassVar[str] = "onnx.reference, numpy"
    abilities: ClassVar[Abilities] = Abilities(
        capture=True, segment="cheap", note="all tensors; slow: small inputs only"
    )
    packages: ClassVar[tuple[str, ...]] = ("onnx",)
    takes = "onnx"

    def version(self) -> str:
        try:
            import onnx
        except ImportError:
            raise MissingExtra("onnx", "onnx") from None
        return onnx.__version__

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        read_options(self, options)
        version = self.version()
        from twinnet.onnx.export import onnx_artefact

        return OnnxReferenceSession(onnx_artefact(network, file, job), job, version)

    def standalone(self) -> Standalone:
        return Standalone(run_onnx_reference, (), "onnx", ("onnx",))


# Its source is copied into `repro.py`, so it must not use twinnet.
def run_onnx_reference(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under the reference evaluator of the onnx package."""
    import onnx
    import onnx.reference

    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    evaluator = onnx.reference.ReferenceEvaluator(loaded)
    taken = {i.name for i in loaded.graph.input}
    results = evaluator.run(None, {n: v for n, v in feeds.items() if n in taken})
    return dict(zip([o.name for o in loaded.graph.output], results))


class OnnxReferenceSession(OnnxSession):
    """Runs node by node, so that a time limit can be enforced and every tensor observed."""

    engine = "onnx-reference"

    def __init__(self, artefact: OnnxArtefact, job: Job, version: str) -> None:
        from onnx.reference import ReferenceEvaluator

        self.version = version
        super().__init__(artefact)
        self._job = job
        model = artefact.network.complete()
        with job.step("load"), foreign("load the network", "onnx-reference"):
            self._evaluator = ReferenceEvaluator(model)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.sites_of(self._cut.observable)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        trace = self.trace(inputs, self._cut.outputs, TraceBuilder())
        return {name: trace[name] for name in self._cut.outputs}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        return self.retrace(inputs, {}, watch, builder)

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        feeds = self._artefact.feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        wanted = set(watch) | set(self._cut.outputs)

        def keep(name: str, result: Any) -> None:
            if name in wanted and isinstance(result, np.ndarray | np.generic):
                builder.add(name, np.asarray(result))

        self._walk(self._evaluator, feeds, patches, keep)
        return builder.done()

    def run_part(self, model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
        from onnx.reference import ReferenceEvaluator

        with foreign("load the network", "onnx-reference"):
            evaluator = ReferenceEvaluator(model)
        found: dict[str, Any] = {}
        self._walk(evaluator, feeds, {}, found.__setitem__)
        return {o.name: found[o.name] for o in model.graph.output}

    def _walk(self, evaluator: Any, feeds: Arrays, patches: Arrays, made: Callable[[str, Any], None]) -> None:
        """Run all nodes, calling `made` with each result."""
        values: dict[str, Any] = {"": None, **feeds, **evaluator.rt_inits_}
        for name, value in evaluator.rt_inits_.items():
            if name in evaluator.output_names:
                made(name, value)
        limit = self._job.limit_of("run")
        deadline = None if limit is None else time.monotonic() + limit
        with self._job.step("run"):
            for done, node in enumerate(evaluator.rt_nodes_):
                if deadline is not None and time.monotonic() > deadline:
                    total = len(evaluator.rt_nodes_)
                    what = (
                        f"onnx-reference exceeded the time limit of {limit:g} s after {done} of {total} nodes"
                    )
                    raise time_up(what, "run")
                context = {"context": values} if node.need_context() else {}
                given = [values[n] for n in node.input]
                with foreign(f"run node {node.output[0]} ({node.op_type})", "onnx-reference"):
                    results = node.run(*given, **context)
                for name, result in zip(node.output, results, strict=False):
                    result = patches.get(name, result)
                    values[name] = result
                    made(name, result)
