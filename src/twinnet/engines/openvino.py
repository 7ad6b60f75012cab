"""OpenVINO on the CPU, tapped at the tensors that survive its fusions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines._openvino_profile import of_each_run, spent_so_far
from twinnet.engines._openvino_program import Step, executed, survivors
from twinnet.engines.base import Abilities, Engine, Session, Standalone, one_of, positive, read_options
from twinnet.engines.floats import own_floats
from twinnet.engines.onnx_session import Runner, TappedSession
from twinnet.engines.timing import WARM_UP, LayerTime, Span, Stopwatch, Timed
from twinnet.errors import EngineError, MissingExtra, foreign_as
from twinnet.job import Arrays, Job
from twinnet.programs.trial import try_out
from twinnet.site import Site

if TYPE_CHECKING:
    import onnx

    from twinnet.network import Network
    from twinnet.onnx.export import OnnxArtefact

__all__ = ["OpenVinoEngine", "declared", "with_shapes"]

_PRECISIONS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_TRIAL = Path(__file__).with_name("_openvino_trial.py")


class OpenVinoEngine(Engine):
    """Runs ONNX files, and torch networks after exporting them to ONNX."""

    name: ClassVar[str] = "openvino"
    extra: ClassVar[str | None] = "openvino"
    summary: ClassVar[str] = "OpenVINO, CPU"
    abilities: ClassVar[Abilities] = Abilities(capture=True, segment="cheap", profile=True)
    packages: ClassVar[tuple[str, ...]] = ("openvino",)
    board: ClassVar[tuple[str, ...] | None] = ("numpy", "openvino")
    takes = "onnx"
    options: ClassVar[Mapping[str, str]] = {
        "precision": "f32|f16|bf16 (default f32)",
        "shapes": "as-written|static (default as-written)",
        "threads": "a number (default: all cores)",
        "config.KEY": "a property of the CPU plugin",
    }

    def version(self) -> str:
        return _openvino().__version__.partition("-")[0]

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(
            self,
            options,
            precision=one_of(*_PRECISIONS),
            shapes=one_of("as-written", "static"),
            threads=positive,
            **{"config.": str},
        )
        version = self.version_at(job)
        from twinnet.onnx.export import onnx_artefact

        artefact = onnx_artefact(network, file, job)
        config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": chosen.get("precision", "f32")}
        threads = chosen.get("threads", job.threads)
        if threads:
            config["INFERENCE_NUM_THREADS"] = threads
        config |= {k.partition(".")[2]: v for k, v in chosen.items() if k.startswith("config.")}
        static = chosen.get("shapes") == "static"
        if job.place.name:
            from twinnet.engines._openvino_board import OpenVinoOnBoard

            return OpenVinoOnBoard(artefact, config, job, version, static=static)
        if config["INFERENCE_PRECISION_HINT"] != "f32":
            with job.step("load"):
                try_out("openvino", _TRIAL, str(config["INFERENCE_PRECISION_HINT"]))
        return OpenVinoSession(artefact, config, job, version, static=static)

    def standalone(self) -> Standalone:
        return Standalone(run_openvino, (), "openvino", ("openvino",))


# Its source is copied into `repro.py`, so it must not use twinnet.
def run_openvino(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under OpenVINO's CPU plugin."""
    import sys

    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import numpy
    import openvino

    core = openvino.Core()
    config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": options.get("precision", "f32")}
    if "threads" in options:
        config["INFERENCE_NUM_THREADS"] = int(options["threads"])
    config.update({k.partition(".")[2]: v for k, v in options.items() if k.startswith("config.")})
    if options.get("shapes") == "static":
        import onnx

        proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        for value in proto.graph.input:
            for size, n in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape):
                size.dim_value = n
        model = proto.SerializeToString()
    loaded = core.read_model(model)
    names = [o.get_any_name() for o in loaded.outputs]
    compiled = core.compile_model(loaded, "CPU", config)
    taken = {i.get_any_name() for i in compiled.inputs}
    request = compiled.create_infer_request()
    request.infer({n: openvino.Tensor(numpy.array(v, order="C")) for n, v in feeds.items() if n in taken})
    return {name: numpy.array(request.get_output_tensor(i).data) for i, name in enumerate(names)}


def _openvino() -> Any:
    """Import the package without its telemetry.

    On import it reports usage over the network and writes files to the home directory, through the package
    openvino_telemetry. If that cannot be imported, it does neither.
    """
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except ImportError:
        raise MissingExtra("openvino", "openvino") from None
    return openvino


@cache
def _core() -> Any:
    """The one that all sessions use, and that stays.

    Its CPU plugin gives the thread that loads it another stack for signals, and frees it in whatever thread the Core
    goes. The next signal, Ctrl-C for one, would then end the process with a crash.
    """
    return _openvino().Core()


_PLACES = ("Exception from ", "Check '", "FrontEnd API failed", "While validating")


def _refused(stage: str, error: BaseException) -> EngineError:
    """OpenVINO's own error message, without places in its source code."""
    text = str(error).strip() or type(error).__name__
    lines = [line.strip().removeprefix("-- ") for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(_PLACES) and not line.endswith(":")] or lines
    which = next((line for line in said[1:] if line.startswith("Conversion is failed for")), "")
    words = f"{said[0]} ({which})" if which else said[0]
    return EngineError(f"openvino could not {stage}: {words[:400]}", stage=stage, log=text[-4000:])


def _openvino_to(stage: str) -> AbstractContextManager[None]:
    """A call into OpenVINO."""
    return foreign_as(lambda error: _refused(stage, error))


class OpenVinoSession(TappedSession):
    """One model under one set of properties. Tapped models are compiled when first needed."""

    engine = "openvino"
    profiled_at_once = 5

    def __init__(
        self, artefact: OnnxArtefact, config: Mapping[str, Any], job: Job, version: str, *, static: bool
    ) -> None:
        super().__init__(artefact, job)
        self.version = version
        self._config = dict(config)
        self._static = static
        self._core = _core()
        self._model = self._import()
        self.precision, self.notes = self._declared()

    def _declared(self) -> tuple[str, tuple[str, ...]]:
        """The number format that OpenVINO reports, and notes if it is not the requested one."""
        given = self.runner.compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        wide = any(i.get_element_type().get_type_name() == "f64" for i in self._model.inputs)
        return declared(str(self._config["INFERENCE_PRECISION_HINT"]), given, wide=wide)

    # -- loading -------------------------------------------------------------------------------------------------

    def _import(self) -> Any:
        """Read the network, with dynamic dimensions as written or, if `static`, with those of the inputs."""
        if self._static:
            return self._read(self._fixed())
        try:
            return self._read(self._artefact.path or self._artefact.model)
        except EngineError as error:
            with contextlib.suppress(EngineError):
                self._read(self._fixed())
                error = error.hinting("it can read the network with fixed shapes: openvino?shapes=static")
            raise error from None

    def _fixed(self) -> onnx.ModelProto:
        return with_shapes(self._artefact, self._job)

    def _read(self, model: Any) -> Any:
        import onnx

        with self._job.step("import"):
            if isinstance(model, onnx.ModelProto):
                source = self._artefact.network.complete(model).SerializeToString()
            else:
                source = str(model)
            with _openvino_to("load the network"):
                return self._core.read_model(source)

    def _compile(self, model: Any, names: Sequence[str], **config: Any) -> _Compiled:
        settings = {**self._config, **config}
        with self._job.step("compile"), own_floats(), _openvino_to("load the network"):
            compiled = self._core.compile_model(model, "CPU", settings)
        return _Compiled(compiled, names, self._job)

    @cached_property
    def runner(self) -> _Compiled:
        return self._compile(self._model, self._cut.outputs)

    def load_part(self, model: onnx.ModelProto) -> Runner:
        return self._compile(self._read(model), [o.name for o in model.graph.output])

    def load_tapped(self, names: Sequence[str]) -> Runner:
        tapped = self._model.clone()
        inner = [n for n in names if n not in self._cut.outputs]
        if inner:
            tapped.add_outputs(inner)
        return self._compile(tapped, [*self._cut.outputs, *inner])

    # -- what can be seen ----------------------------------------------------------------------------------------

    @cached_property
    def _steps(self) -> list[Step]:
        return executed(self.runner.compiled)

    @cached_property
    def sites(self) -> tuple[Site, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        alive = survivors(self._model, self._steps) | set(self._cut.outputs)
        return self.sites_of(name for name in self._cut.observable if name in alive)

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        timed = self._compile(self._model.clone(), self._cut.outputs, PERF_COUNT=True)
        given = timed.given(self._artefact.feeds(inputs))
        bare, watched = Stopwatch(), Stopwatch()
        count = max(repeats, 1)
        spent: list[dict[str, float]] = []
        for number in range(WARM_UP + count):
            with self._job.step("run"), own_floats(), _openvino_to("run the network"):
                bare(lambda: self.runner.request.infer(given))
                watched(lambda: timed.request.infer(given))
            if number >= WARM_UP - 1:
                spent.append(spent_so_far(timed.request, number + 1))
        whole, plain = watched.seconds[WARM_UP:], bare.seconds[WARM_UP:]
        kernels = {info.node_name: info.exec_type for info in timed.request.profiling_info}
        made: dict[str, tuple[str, ...]] = {}
        steps: list[LayerTime] = []
        # Backwards, so that a step that makes nothing of its own learns what its readers make.
        for step in reversed(executed(timed.compiled)):
            own = tuple(n for layer in step.layers for n in self._made_by.get(layer, ()))
            toward = () if own else tuple(dict.fromkeys(n for r in step.readers for n in made.get(r, ())))
            made[step.name] = own or toward
            if step.name in spent[-1]:
                seconds = of_each_run([so_far.get(step.name, 0.0) for so_far in spent], whole)
                times = tuple(Span(run, each) for run, each in enumerate(seconds))
                steps.append(LayerTime(step.name, step.op, times, own, kernels[step.name], toward))
        return Timed(
            tuple(reversed(steps)),
            tuple(whole),
            tuple(plain),
            tuple(bare.cpu[WARM_UP:]),
            looked_cpu=tuple(watched.cpu[WARM_UP:]),
        )

    @cached_property
    def _made_by(self) -> dict[str, list[str]]:
        """OpenVINO's name of each layer to the tensors of the network that it makes."""
        known = set(self._cut.observable)
        return {
            operation.get_friendly_name(): [n for p in operation.outputs() for n in p.names if n in known]
            for operation in self._model.get_ordered_ops()
        }


def declared(asked: str, given: str, *, wide: bool) -> tuple[str, tuple[str, ...]]:
    """The number format that OpenVINO says it uses, and notes if it is not the requested one.

    >>> declared("bf16", "f32", wide=False)[0]
    'float32'
    """
    notes: list[str] = []
    if given in _PRECISIONS and given != asked:
        notes.append(f"openvino computes in {given} on this processor, though {asked} was requested")
    if wide:
        notes.append("openvino computes float64 networks in float32")
    return _PRECISIONS.get(given, "float32"), tuple(notes)


def with_shapes(artefact: OnnxArtefact, job: Job) -> onnx.ModelProto:
    """The model with the shapes of the job's inputs."""
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(artefact.model)
    feeds = artefact.feeds(job.inputs)
    for value in fixed.graph.input:
        if value.name in feeds:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, feeds[value.name].shape))
    return fixed


class _Compiled:
    """A compiled model with its outputs' names in order, and one request to run it with."""

    def __init__(self, compiled: Any, names: Sequence[str], job: Job) -> None:
        self.compiled = compiled
        self.inputs = [i.get_any_name() for i in compiled.inputs]
        self.outputs = list(names)
        self.request = compiled.create_infer_request()
        self._job = job
        if len(compiled.outputs) != len(self.outputs):
            raise EngineError(
                f"openvino made {len(compiled.outputs)} outputs where the network has {len(self.outputs)}",
                stage="load the network",
            )

    def given(self, feeds: Arrays) -> dict[str, Any]:
        """Copies of the inputs, as a request takes them."""
        tensor = _openvino().Tensor
        return {n: tensor(np.array(a, order="C")) for n, a in feeds.items() if n in self.inputs}

    def __call__(self, feeds: Arrays) -> list[np.ndarray]:
        given = self.given(feeds)
        with self._job.step("run"), own_floats(), _openvino_to("run the network"):
            self.request.infer(given)
            return [np.array(self.request.get_output_tensor(i).data) for i in range(len(self.outputs))]
