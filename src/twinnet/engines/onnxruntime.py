"""ONNX Runtime on the CPU, tapped at the tensors that survive its own optimisation."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines._onnx_session import Runner, TappedSession
from twinnet.engines.base import Abilities, Arrays, Engine, Job, Session, failed, positive, read_options
from twinnet.errors import MissingExtra
from twinnet.site import Site

if TYPE_CHECKING:
    import onnx

    from twinnet.engines._export import OnnxArtefact
    from twinnet.network import Network

__all__ = ["OnnxRuntimeEngine", "OnnxRuntimeSession"]

_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_WIDENED = "InsertedPrecisionFreeCast_"


def _level(text: str) -> str:
    if text not in _LEVELS:
        raise ValueError(text)
    return text


class OnnxRuntimeEngine(Engine):
    """Runs ONNX files, and torch networks after exporting them to ONNX."""

    name: ClassVar[str] = "onnxruntime"
    extra: ClassVar[str | None] = "onnx"
    summary: ClassVar[str] = "ONNX Runtime, CPU"
    abilities: ClassVar[Abilities] = Abilities(capture=True, segment="cheap", profile=True)
    options: ClassVar[Mapping[str, str]] = {
        "opt": "off|basic|extended|all (default all)",
        "threads": "a number (default: all cores)",
        "config.KEY": "a session config entry",
    }

    def version(self) -> str:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra("onnxruntime", "onnx") from None
        return onnxruntime.__version__

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(self, options, opt=_level, threads=positive, **{"config.": str})
        self.version()
        from twinnet.engines._export import onnx_artefact

        artefact = onnx_artefact(network, file, job)
        threads = chosen.pop("threads", job.threads)
        entries = {k.partition(".")[2]: v for k, v in chosen.items() if k.startswith("config.")}
        return OnnxRuntimeSession(artefact, chosen.get("opt", "all"), threads, entries, job, self.version())


class OnnxRuntimeSession(TappedSession):
    """One model under one set of options. Tapped sessions are made when first needed."""

    engine = "onnxruntime"

    def __init__(
        self,
        artefact: OnnxArtefact,
        level: str,
        threads: int | None,
        entries: Mapping[str, str],
        job: Job,
        version: str,
    ) -> None:
        self.version = version
        super().__init__(artefact, job)
        self._level = level
        self._threads = threads
        self._entries = entries
        self._runner = _Loaded(self._load(artefact.path or artefact.model), job)

    def _load(self, model: Any, *, level: str | None = None, save_to: Path | None = None) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        # An arena keeps a session's largest moment for ever; here many sessions live side by side.
        options.enable_cpu_mem_arena = False
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[level or self._level])
        if self._threads:
            options.intra_op_num_threads = self._threads
        for key, value in self._entries.items():
            options.add_session_config_entry(key, value)
        if self._artefact.base_dir is not None:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(self._artefact.base_dir)
            )
        if save_to is not None:
            options.optimized_model_filepath = str(save_to)
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", "weights.bin"
            )
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
            )
        source = str(model) if isinstance(model, str | Path) else model.SerializeToString()
        try:
            with self._job.step("load"):
                return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise failed("load the network", "onnxruntime", error) from error

    @cached_property
    def _survivors(self) -> tuple[str, ...]:
        """Original tensors that still exist after optimisation, in the original's order.

        They are listed from the saved graph of at most level "extended": marking just these in the original leaves
        the fused graph, and so the output, as it was. (Level "all" also changes layouts, which hides tensors.)
        """
        if self._level == "off":
            return self._cut.observable
        import onnx

        with tempfile.TemporaryDirectory(prefix="twinnet-ort-") as folder:
            saved = Path(folder) / "optimised.onnx"
            self.save_optimised(saved)
            graph = onnx.load(str(saved), load_external_data=False).graph
        # Where it has no kernel for a narrow format it computes in float32, under a name of its own.
        alive = {name.removeprefix(_WIDENED) for node in graph.node for name in node.output}
        # ONNX Runtime keeps the names of graph outputs, whatever it does inside.
        alive.update(self._cut.outputs)
        return tuple(name for name in self._cut.observable if name in alive)

    def save_optimised(self, target: Path) -> None:
        """Write the model as it is optimised here, at most at level "extended": "all" is for one processor only."""
        level = "extended" if self._level == "all" else self._level
        self._load(self._artefact.path or self._artefact.model, level=level, save_to=target)

    @cached_property
    def _sites(self) -> tuple[Site, ...]:
        return self._sites_of(self._survivors)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._sites

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        runner = self._runner
        return dict(zip(runner.outputs, runner(self._artefact.feeds(inputs)), strict=True))

    def _load_part(self, model: onnx.ModelProto) -> Runner:
        return _Loaded(self._load(model), self._job)

    def close(self) -> None:
        super().close()
        with contextlib.suppress(AttributeError):
            del self._runner


class _Loaded:
    """An `InferenceSession` with its names."""

    def __init__(self, session: Any, job: Job) -> None:
        self.session = session
        self.inputs = [i.name for i in session.get_inputs()]
        self.outputs = [o.name for o in session.get_outputs()]
        self._job = job

    def __call__(self, feeds: Arrays) -> list[np.ndarray]:
        try:
            with self._job.step("run"):
                return self.session.run(self.outputs, dict(feeds))
        except Exception as error:
            raise failed("run the network", "onnxruntime", error) from error
