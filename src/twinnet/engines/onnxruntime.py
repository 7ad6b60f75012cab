"""ONNX Runtime on the CPU, tapped at the tensors that survive its own optimisation."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines._onnx_graph import Piece
from twinnet.engines._onnx_session import OnnxSession
from twinnet.engines.base import Abilities, Arrays, Engine, Job, Session, failed, positive, read_options
from twinnet.errors import MissingExtra
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.engines._export import OnnxArtefact
    from twinnet.network import Network

__all__ = ["OnnxRuntimeEngine"]

_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_PIECE_BYTES = 64 << 20


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


class OnnxRuntimeSession(OnnxSession):
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
        super().__init__(artefact)
        self._level = level
        self._threads = threads
        self._entries = entries
        self._job = job
        self._plans: dict[frozenset[str], list[Piece]] = {}
        self._whole: dict[frozenset[str], Any] = {}
        self._session = self._load(artefact.path or artefact.model)

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

        level = "extended" if self._level == "all" else self._level
        with tempfile.TemporaryDirectory(prefix="twinnet-ort-") as folder:
            saved = Path(folder) / "optimised.onnx"
            self._load(self._artefact.path or self._artefact.model, level=level, save_to=saved)
            graph = onnx.load(str(saved), load_external_data=False).graph
        alive = {name for node in graph.node for name in node.output}
        # ONNX Runtime keeps the names of graph outputs, whatever it does inside.
        alive.update(self._cut.outputs)
        return tuple(name for name in self._cut.observable if name in alive)

    @cached_property
    def _sites(self) -> tuple[Site, ...]:
        return self._sites_of(self._survivors)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._sites

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        names = [o.name for o in self._session.get_outputs()]
        return dict(zip(names, self._call(self._session, names, self._feeds(inputs)), strict=True))

    def _feeds(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return self._artefact.feeds(inputs)

    def _call(self, session: Any, names: list[str], feeds: Arrays) -> list[np.ndarray]:
        try:
            with self._job.step("run"):
                return session.run(names, dict(feeds))
        except Exception as error:
            raise failed("run the network", "onnxruntime", error) from error

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        feeds = self._feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        values: dict[str, np.ndarray] = dict(feeds)
        key = frozenset(watch)
        pieces = self._plans.get(key) or self._plan(key, feeds)
        self._plans[key] = pieces
        for index, piece in enumerate(pieces):
            needed_later = {n for later in pieces[index + 1 :] for n in later.inputs}
            session = self._whole.get(key) or self._piece_session(piece, values, len(pieces), watch)
            if len(pieces) == 1:
                # One piece serves all samples. Of many, each goes when it is done: its threads and buffers with it.
                self._whole[key] = session
            have = {i.name for i in session.get_inputs()}
            names = [o.name for o in session.get_outputs()]
            results = self._call(session, names, {n: values[n] for n in have})
            for name, result in zip(names, results, strict=True):
                if not isinstance(result, np.ndarray) or result.dtype == object:
                    if name in needed_later:
                        values[name] = result
                    continue
                if name in key or name in self._cut.outputs:
                    builder.add(name, result)
                if name in needed_later:
                    values[name] = result
            del results, session
            values = {n: v for n, v in values.items() if n in needed_later or n in feeds}
        return builder.done()

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        feeds = self._feeds(inputs)
        for name, array in (*feeds.items(), *patches.items()):
            builder.add(name, np.asarray(array))
        wanted = [n for n in self._cut.observable if n in watch or n in self._cut.outputs]
        model = self._cut.with_values({n: np.asarray(a) for n, a in patches.items()}, wanted)
        if not model.graph.output:  # everything that is wanted was given
            return builder.done()
        session = self._load(model)
        have = {i.name for i in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        given = {n: a for n, a in {**feeds, **patches}.items() if n in have}
        for name, result in zip(names, self._call(session, names, given), strict=True):
            if isinstance(result, np.ndarray) and result.dtype != object:
                builder.add(name, result)
        return builder.done()

    def _plan(self, watch: frozenset[str], feeds: Arrays) -> list[Piece]:
        budget = _PIECE_BYTES if self._job.memory is None else max(self._job.memory // 3, 1 << 20)
        sizes = self._cut.sizes({n: a.shape for n, a in feeds.items()})
        return self._cut.pieces(watch, sizes, budget)

    def _piece_session(self, piece: Piece, values: Arrays, count: int, watch: Collection[str]) -> Any:
        if count == 1:
            return self._load(self._cut.with_outputs(n for n in self._cut.observable if n in watch))
        return self._load(self._cut.extract(piece, values))

    def close(self) -> None:
        self._whole.clear()
        with contextlib.suppress(AttributeError):
            del self._session
