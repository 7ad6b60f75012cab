"""ONNX Runtime on the CPU, tapped at the tensors that survive its own optimisation."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines import _ort_session
from twinnet.engines._elsewhere import Elsewhere, find_python
from twinnet.engines._ort_loaded import BFLOAT16_NUMBER, Loaded
from twinnet.engines._ort_profile import empty_steps, loading_times, made_by_nodes, node_times, timer_cost
from twinnet.engines._ort_session import LEVELS, make_session
from twinnet.engines._ort_signed import has_signed, is_renamed, unsigned
from twinnet.engines._quantise import CALIBRATIONS, FORMATS, TYPES, WAYS, Quantise, quantised
from twinnet.engines.base import (
    Abilities,
    Engine,
    Session,
    Standalone,
    one_of,
    positive,
    read_options,
    switch,
)
from twinnet.engines.onnx_session import Runner, TappedSession
from twinnet.engines.timing import WARM_UP, Stopwatch, Timed
from twinnet.errors import EngineError, MissingExtra, UsageError, foreign, undoing
from twinnet.job import Arrays, Job
from twinnet.programs.place import Script
from twinnet.scratch import scratch_folder
from twinnet.site import Site

if TYPE_CHECKING:
    import onnx

    from twinnet.network import Network
    from twinnet.onnx.export import OnnxArtefact

__all__ = ["OnnxRuntimeEngine", "OnnxRuntimeSession"]

_WIDENED = "InsertedPrecisionFreeCast_"
_LARGEST = 1_900_000_000
"""Bytes of weights that fit into one ONNX file, with the rest of it."""


class OnnxRuntimeEngine(Engine):
    """Runs ONNX files, and torch networks after exporting them to ONNX."""

    name: ClassVar[str] = "onnxruntime"
    extra: ClassVar[str | None] = "onnx"
    summary: ClassVar[str] = "ONNX Runtime, CPU"
    abilities: ClassVar[Abilities] = Abilities(capture=True, segment="cheap", profile=True, optimised=True)
    packages: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    takes = "onnx"
    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    formats: ClassVar[tuple[str, ...]] = ("ONNX",)
    as_written: ClassVar[Mapping[str, str]] = {"opt": "off"}
    board: ClassVar[tuple[str, ...] | None] = ("numpy", "onnxruntime")
    calmer: ClassVar[tuple[Mapping[str, str], ...]] = ({"opt": "off"},)
    settings: ClassVar[Mapping[str, tuple[str, ...]]] = {"opt": ("off", "basic", "extended", "all")}
    options: ClassVar[Mapping[str, str]] = {
        "opt": "off|basic|extended|all (default all)",
        "threads": "a number (default: all cores)",
        "config.KEY": "a session config entry",
        "quantize": "static|dynamic|weights|float16: make the twin by quantising the network",
        "per_channel": "1|0: a step for each channel of a weight (default 0)",
        "activations": "uint8|int8|uint16|int16 (static; default uint8)",
        "weights": "int8|uint8|int16|uint16 (default int8)",
        "calibrate": "minmax|entropy|percentile|distribution (static; default minmax)",
        "format": "qdq|qoperator (static): quantisers around float operators, or integer operators (default qdq)",
        "reduce_range": "1|0: weights in 7 bits, for processors whose 8-bit sums overflow (default 0)",
        "python": "a virtual environment or interpreter whose onnxruntime runs the twin (default: this one)",
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
        chosen = read_options(
            self,
            options,
            opt=one_of(*LEVELS),
            threads=positive,
            quantize=one_of(*WAYS),
            per_channel=switch,
            activations=one_of(*TYPES),
            weights=one_of(*TYPES),
            calibrate=one_of(*CALIBRATIONS),
            reduce_range=switch,
            format=one_of(*FORMATS),
            python=find_python,
            **{"config.": str},
        )
        python, elsewhere = chosen.get("python"), bool(job.place.name)
        if elsewhere and python is not None:
            raise UsageError("python= names an interpreter on this machine", hint="ssh://host?python=PATH")
        version = self.version_at(job)
        from twinnet.onnx.export import onnx_artefact

        way = Quantise.of(chosen)
        artefact = onnx_artefact(network, file, job)
        if way is not None:
            artefact = quantised(artefact, way, job)
        threads = chosen.pop("threads", job.threads)
        settled = _settled(chosen)
        entries = {k.partition(".")[2]: v for k, v in settled.items() if k.startswith("config.")}
        if elsewhere:
            artefact = _for_board(artefact)
        elif python is None and _limited(job) and sys.executable and not _narrow(artefact):
            python = Path(sys.executable)  # only another process can be stopped whatever it does
        name = "onnxruntime" if python is None else f"onnxruntime in {python}"
        script = Script(Path(_ort_session.__file__), name, ("numpy", "onnxruntime"), ("-I",))
        child = Elsewhere(script, job, python) if elsewhere or python is not None else None
        with contextlib.nullcontext() if child is None else undoing(child.close):
            if child is not None and not elsewhere:
                told = child.version()  # asked first: it says best what is missing there
                version = told if "python" in chosen else version
            settings = Settings(chosen.get("opt", "all"), threads, entries, child)
            session = OnnxRuntimeSession(artefact, settings, job, version)
        if way is not None:
            session.precision = way.precision
        return session

    def standalone(self) -> Standalone:
        from twinnet.engines._ort_alone import run_elsewhere, run_onnxruntime

        return Standalone(run_onnxruntime, (run_elsewhere,), "onnxruntime", ("onnxruntime",))

    def standalone_options(self, options: Mapping[str, str], file: str | None, job: Job) -> dict[str, str]:
        given = _settled(options)
        return given | {"python": str(find_python(given["python"]))} if "python" in given else given

    def starts(self, options: Mapping[str, str]) -> tuple[str, ...]:
        elsewhere = (str(options["python"]),) if "python" in options else ()
        return elsewhere + super().starts(options)

    def save_optimised(self, file: str, options: Mapping[str, str], target: Path, job: Job) -> str:
        level = options.get("opt", "all")
        session = self.open(None, {"opt": level}, file, job)
        assert isinstance(session, OnnxRuntimeSession)
        session.save_optimised(target)
        session.close()
        return f"as ONNX Runtime optimises it (level {'extended' if level == 'all' else level})"


def _limited(job: Job) -> bool:
    return any(job.limit_of(step) is not None for step in ("load", "run"))


def _narrow(artefact: OnnxArtefact) -> bool:
    """Whether a model may show bfloat16 values, which do not travel between processes."""
    graph = artefact.model.graph
    kinds = {v.type.tensor_type.elem_type for part in (graph.input, graph.output) for v in part}
    return BFLOAT16_NUMBER in kinds | {t.data_type for t in graph.initializer}


def _for_board(artefact: OnnxArtefact) -> OnnxArtefact:
    """A model in one piece, as it is copied to a board."""
    from twinnet.onnx.network import OnnxNetwork

    if _narrow(artefact):
        raise EngineError("bfloat16 values cannot be sent to a board", stage="load the network")
    network = artefact.network
    if not network.external:
        return artefact
    if sum(file.stat().st_size for file in network.external) > _LARGEST:
        raise EngineError("the weights are too large for a board: more than 1.9 GB", stage="load the network")
    return replace(artefact, network=OnnxNetwork(network.complete(), name=network.name))


def _settled(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with those that they imply."""
    if options.get("quantize") != "weights":
        return dict(options)
    # By default its optimiser also rounds the data of such products to 8 bits.
    return {"config.session.qdq_matmulnbits_accuracy_level": "1", **options}


@dataclass(frozen=True, slots=True)
class Settings:
    """How models are loaded: optimisation level, threads (None: all cores), config entries, another interpreter."""

    level: str
    threads: int | None
    entries: Mapping[str, str]
    elsewhere: Elsewhere | None = None


class OnnxRuntimeSession(TappedSession):
    """One model under one set of options. Tapped sessions are made when first needed."""

    engine = "onnxruntime"

    def __init__(self, artefact: OnnxArtefact, settings: Settings, job: Job, version: str) -> None:
        super().__init__(artefact, job)
        self.version = version
        self._settings = settings
        self._level = settings.level
        self._elsewhere = settings.elsewhere
        self.runner = Loaded(self._load(artefact.path or artefact.model), job)

    def _load(
        self,
        model: Any,
        *,
        level: str | None = None,
        save_to: Path | None = None,
        profile_to: Path | None = None,
        deployed: bool = False,
        elsewhere: Elsewhere | None = None,
    ) -> Any:
        """Load a model here, or in the interpreter where the twin runs; `elsewhere` overrides its child process."""
        elsewhere = elsewhere or self._elsewhere
        entries = dict(self._settings.entries)
        if self._artefact.base_dir is not None and not self._job.place.name:
            entries["session.model_external_initializers_file_folder_path"] = str(
                self._artefact.base_dir.absolute()
            )
        settings = {
            "level": level or self._level,
            "threads": self._settings.threads,
            "entries": entries,
            "save_to": None if save_to is None else str(save_to),
            "profile_to": None if profile_to is None else str(profile_to),
            "deployed": deployed or profile_to is not None,
        }
        source = str(model) if isinstance(model, str | Path) else model.SerializeToString()
        with self._job.step("load"):
            if elsewhere is not None:
                return elsewhere.load(source, settings)
            with foreign("load the network", "onnxruntime"):
                return make_session(source, settings)

    @cached_property
    def sites(self) -> tuple[Site, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Original tensors that still exist after optimisation, in the original's order.

        They are listed from the saved graph of at most level "extended": marking just these in the original leaves
        the fused graph, and so the output, as it was. (Level "all" also changes layouts, which hides tensors.)
        """
        if self._level == "off":
            return self.sites_of(self._cut.observable)
        # Without a kernel for a narrow format it computes in float32, under a prefixed name.
        alive = {name.removeprefix(_WIDENED) for node in self._optimised.node for name in node.output}
        # ONNX Runtime always keeps the names of graph outputs.
        alive.update(self._cut.outputs)
        return self.sites_of(name for name in self._cut.observable if name in alive)

    @cached_property
    def _optimised(self) -> onnx.GraphProto:
        """The graph that is left after optimisation, under the names of the file."""
        if not self._makes_unsigned:
            return self._as_deployed
        return self._saved(unsigned(self._artefact.model)[0])

    @cached_property
    def _makes_unsigned(self) -> bool:
        """Whether signed activations of the file are unsigned in what is deployed."""
        signed = self._level != "off" and has_signed(self._artefact.model.graph)
        return signed and is_renamed(self._as_deployed)

    @cached_property
    def _as_deployed(self) -> onnx.GraphProto:
        return self._saved(self._artefact.path or self._artefact.model)

    def _saved(self, model: Any) -> onnx.GraphProto:
        """The graph that is left of a model, at most at level "extended"; without large weights."""
        import onnx

        with scratch_folder("ort") as folder:
            saved = Path(folder) / "optimised.onnx"
            self._save_optimised(model, saved)
            return onnx.load(str(saved), load_external_data=False).graph

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        if self._elsewhere is not None:
            raise EngineError(
                "times per layer are measured only in this interpreter",
                stage="profile",
                hint="leave out python=, --time-limit and --on",
            )
        import onnx

        feeds, model = self._artefact.feeds(inputs), self._artefact.path or self._artefact.model
        bare, watched = Stopwatch(), Stopwatch()
        with scratch_folder("ort") as folder:
            timed = self._load(
                model, profile_to=Path(folder) / "times", save_to=Path(folder) / "optimised.onnx"
            )
            plain, run = (Loaded(s, self._job) for s in (self._load(model, deployed=True), timed))
            for _ in range(WARM_UP + max(repeats, 1)):
                bare(lambda: plain(feeds))
                watched(lambda: run(feeds))
            events = json.loads(Path(timed.end_profiling()).read_text(encoding="utf-8"))
            graph = onnx.load(str(Path(folder) / "optimised.onnx"), load_external_data=False).graph
        return Timed(
            node_times(
                events,
                made_by_nodes(graph, self._optimised, frozenset(self._cut.observable)),
                WARM_UP,
                self._timer_cost,
            ),
            tuple(watched.seconds[WARM_UP:]),
            tuple(bare.seconds[WARM_UP:]),
            tuple(bare.cpu[WARM_UP:]),
            loading=loading_times(events),
            looked_cpu=tuple(watched.cpu[WARM_UP:]),
        )

    @cached_property
    def _timer_cost(self) -> float:
        """Seconds that the profiler adds to each step in this process."""
        with scratch_folder("ort") as folder:
            model = empty_steps()
            timed = self._load(model, profile_to=Path(folder) / "empty")
            plain = self._load(model, deployed=True)
            return timer_cost(lambda feeds: plain.run(None, feeds), timed)

    def passes(self) -> tuple[tuple[str, float], ...]:
        if self._elsewhere is not None:
            return ()
        with scratch_folder("ort") as folder:
            made = self._load(self._artefact.path or self._artefact.model, profile_to=Path(folder) / "load")
            return loading_times(json.loads(Path(made.end_profiling()).read_text(encoding="utf-8")))

    def save_optimised(self, target: Path) -> None:
        """Write the model as it is optimised here, at most at level "extended": "all" is for one processor only."""
        self._save_optimised(self._artefact.path or self._artefact.model, target)

    def _save_optimised(self, model: Any, target: Path) -> None:
        self._load(model, level="extended" if self._level == "all" else self._level, save_to=target)

    def load_ahead(self, inputs: Arrays) -> None:
        # All sites may be tapped at once: tapping survivors does not change the optimised graph.
        watch = frozenset(site.tensor for site in self.sites)
        feeds = self._artefact.feeds(inputs)
        pieces = self._plan(watch, feeds)
        if len(pieces) == 1:
            self._whole[watch] = self._piece_runner(pieces[0], feeds, 1, watch)

    def load_part(self, model: onnx.ModelProto) -> Runner:
        if not self._makes_unsigned:
            return Loaded(self._load(model), self._job)
        changed, moved = unsigned(model)
        return Loaded(self._load(changed), self._job, moved)

    def run_part(self, model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
        if self._elsewhere is None:
            return super().run_part(model, feeds)
        # In a separate child: if the part crashes it, the twin is not affected.
        with contextlib.closing(self._elsewhere.another()) as child:
            runner = Loaded(self._load(model, elsewhere=child), self._job)
            return dict(zip(runner.outputs, runner(feeds), strict=True))

    def close(self) -> None:
        super().close()
        if self._elsewhere is not None:
            self._elsewhere.close()
