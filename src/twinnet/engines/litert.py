"""LiteRT (TensorFlow Lite) on the CPU, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from twinnet.engines._litert_child import XNNPACK_ONLY
from twinnet.engines._litert_make import ACTIVATIONS, CALIBRATIONS, WAYS, Quantise, converted, quantised
from twinnet.engines._litert_program import KERNELS
from twinnet.engines.base import Abilities, Engine, Session, Standalone, one_of, positive, read_options
from twinnet.errors import EngineError, MissingExtra, UsageError
from twinnet.job import Job

if TYPE_CHECKING:
    from twinnet.network import Network
    from twinnet.tflite.network import TfliteNetwork

__all__ = ["LiteRtEngine"]


class LiteRtEngine(Engine):
    """Runs TFLite files, and torch networks after converting them with litert-torch."""

    name: ClassVar[str] = "litert"
    extra: ClassVar[str | None] = "litert"
    summary: ClassVar[str] = "LiteRT (TFLite), CPU"
    abilities: ClassVar[Abilities] = Abilities(
        capture=True, segment="cheap", profile=True, note="all tensors; times of operators alone"
    )
    packages: ClassVar[tuple[str, ...]] = ("ai-edge-litert", "litert-torch", "ai-edge-quantizer")
    suffixes: ClassVar[tuple[str, ...]] = (".tflite",)
    formats: ClassVar[tuple[str, ...]] = ("TFLite",)
    as_written: ClassVar[Mapping[str, str]] = {"kernels": "builtin"}
    board: ClassVar[tuple[str, ...] | None] = ("numpy", "ai-edge-litert")
    calmer: ClassVar[tuple[Mapping[str, str], ...]] = ({"kernels": "builtin"}, {"kernels": "reference"})
    settings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "quantize": ("", "dynamic", "weights", "static"),
        "kernels": ("xnnpack", "builtin", "reference"),
    }
    options: ClassVar[Mapping[str, str]] = {
        "kernels": "xnnpack|builtin|reference (default xnnpack)",
        "threads": "a number (default 1)",
        "delegate": "a shared library with an external delegate",
        "quantize": "static|dynamic|weights: make the twin by quantising the network",
        "activations": "int8|int16 (static; default int8)",
        "calibrate": "minmax|average (static; default minmax)",
    }

    stage: ClassVar[str] = "litert"
    making: ClassVar[tuple[str, ...]] = ("quantize", "activations", "calibrate")

    def version(self) -> str:
        try:
            return version("ai-edge-litert")
        except PackageNotFoundError:
            raise MissingExtra("ai-edge-litert", "litert") from None

    def writing(self, network: Network) -> Mapping[str, str]:
        from twinnet.tflite.network import TfliteNetwork

        operators = network.model.main.operators if isinstance(network, TfliteNetwork) else ()
        only = any(op.custom and op.op in XNNPACK_ONLY for op in operators)
        return {"kernels": "xnnpack"} if only else self.as_written

    def keeps_names(self, network: Network, options: Mapping[str, str]) -> bool:
        return network.format == "TFLite" and "quantize" not in options

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(
            self,
            options,
            kernels=one_of(*KERNELS),
            threads=positive,
            delegate=_library,
            quantize=one_of(*WAYS),
            activations=one_of(*ACTIVATIONS),
            calibrate=one_of(*CALIBRATIONS),
        )
        way = Quantise.of(chosen)
        if job.place.name and "delegate" in chosen:
            raise UsageError("delegate= names a library on this machine", hint="leave it out with --on")
        installed = self.version_at(job)
        from twinnet.engines._litert_session import LiteRtSession, Settings

        loaded = _tflite(network, file, job)
        if way is not None:
            loaded = _quantised(loaded, network, way, job)
        settings = Settings(
            chosen.get("kernels", "xnnpack"),
            chosen.get("threads", job.threads) or 1,
            chosen.get("delegate"),
        )
        return LiteRtSession(loaded, network, settings, job, installed)

    def standalone(self) -> Standalone:
        from twinnet.engines._litert_alone import run_litert

        return Standalone(run_litert, (), "ai_edge_litert", ("ai-edge-litert",), takes_onnx=False)

    def save_stage(self, network: Network, options: Mapping[str, str], target: Path, job: Job) -> str:
        way = Quantise.of(options)
        loaded = _tflite(network, None, job)
        if way is not None:
            loaded = _quantised(loaded, network, way, job)
        target.write_bytes(loaded.data)
        return "converted by litert-torch" if way is None else f"quantised by ai-edge-quantizer ({way.how})"

    def starts(self, options: Mapping[str, str]) -> tuple[str, ...]:
        return (str(options["delegate"]),) if "delegate" in options else ()


def _quantised(loaded: TfliteNetwork, network: Network | None, way: Quantise, job: Job) -> TfliteNetwork:
    from twinnet.tflite.ends import sample_for

    names = [label for label, _ in loaded.model.inputs]
    samples = [
        sample_for(loaded, network, dict(zip(names, sample.values(), strict=False)))
        for sample in job.samples or (job.inputs,)
    ]
    return quantised(loaded, way, samples, job)


def _library(text: str) -> str:
    path = Path(text).expanduser()
    if not path.is_file():
        raise EngineError(
            f"litert could not load the delegate {text}: there is no such file",
            stage="load",
            hint="delegate=PATH names a shared library",
        )
    return str(path.absolute())


def _tflite(network: Network | None, file: str | None, job: Job) -> TfliteNetwork:
    from twinnet.tflite.network import TfliteNetwork

    if file is not None:
        from twinnet.network import load_network

        loaded = load_network(file)
        if not isinstance(loaded, TfliteNetwork):
            raise UsageError(f"{file} is not a TFLite file")
        return loaded
    if network is None:
        raise UsageError("no network and no file to load")
    if isinstance(network, TfliteNetwork):
        return network
    return converted(network, job)
