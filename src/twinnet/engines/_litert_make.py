"""TFLite files made from networks: converted by litert-torch, quantised by ai-edge-quantizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.cache import cached_folder, content_key
from twinnet.engines import _litert_make_program
from twinnet.errors import EngineError, MissingExtra, UsageError, undoing
from twinnet.job import Job
from twinnet.network import Network
from twinnet.programs.place import Script
from twinnet.programs.spares import Spares
from twinnet.scratch import scratch_folder
from twinnet.tflite.network import TfliteNetwork

__all__ = ["ACTIVATIONS", "CALIBRATIONS", "WAYS", "Quantise", "converted", "quantised"]

WAYS = ("static", "dynamic", "weights")
ACTIVATIONS = ("int8", "int16")
CALIBRATIONS = ("minmax", "average")

_PROGRAM = Script(
    Path(_litert_make_program.__file__),
    "litert-torch",
    ("litert-torch", "ai-edge-quantizer"),
    parts=("memory.py",),
)
_SPARES = Spares(_PROGRAM)
_LIGHT = 2 << 30
"""A process that once held more bytes than this is not kept for the next conversion."""


@dataclass(frozen=True, slots=True)
class Quantise:
    """How a network is quantised; the fields are options of the engine."""

    how: str
    activations: str = "int8"
    calibrate: str = "minmax"

    @staticmethod
    def of(options: Mapping[str, Any]) -> Quantise | None:
        """Read an engine's options; None without quantisation. Options that would have no effect are refused.

        >>> Quantise.of({"quantize": "static", "activations": "int16"}).recipe
        'static_wi8_ai16'
        """
        how = options.get("quantize")
        given = {key: options[key] for key in ("activations", "calibrate") if key in options}
        if given and how != "static":
            raise UsageError(
                f"litert: {next(iter(given))}= has no effect here", hint="it belongs to quantize=static"
            )
        return None if how is None else Quantise(how, **given)

    @property
    def recipe(self) -> str:
        """The name of the recipe in ai-edge-quantizer."""
        if self.how == "static":
            return f"static_wi8_ai{self.activations.removeprefix('int')}"
        return {"dynamic": "dynamic_wi8_afp32", "weights": "weight_only_wi8_afp32"}[self.how]


def converted(network: Network, job: Job) -> TfliteNetwork:
    """A PyTorch network as a TFLite file, by litert-torch; kept in the cache."""
    installed = _version("litert-torch", "litert-convert")
    import torch

    from twinnet.network.content import exported_program, program_content

    with job.step("export"):
        program = exported_program(network, job.inputs, "converted to TFLite", "FILE.tflite")
    key = content_key(
        "litert", torch.__version__, installed, _version("litert-converter"), *program_content(program)
    )

    def build(folder: Path) -> None:
        with job.step("convert to TFLite"), scratch_folder("litert") as place:
            file = Path(place) / "program.pt2"
            torch.export.save(program, file)
            _make({"do": "convert", "program": str(file), "target": str(folder / "network.tflite")}, job)

    return TfliteNetwork.load(cached_folder(key, build) / "network.tflite", name=network.name)


def quantised(
    tflite: TfliteNetwork, way: Quantise, samples: Sequence[Mapping[str, np.ndarray]], job: Job
) -> TfliteNetwork:
    """A TFLite file quantised, calibrated with these samples (by the file's input names)."""
    _version("ai-edge-quantizer", "litert-convert")
    with job.step("quantise"), scratch_folder("litert") as place:
        folder = Path(place)
        source, target = folder / "float.tflite", folder / "quantised.tflite"
        source.write_bytes(tflite.data)
        files = []
        for i, sample in enumerate(samples if way.how == "static" else ()):
            files.append(str(folder / f"{i}.npz"))
            np.savez(files[-1], allow_pickle=False, **{n: np.asarray(a) for n, a in sample.items()})
        task = {"do": "quantise", "source": str(source), "target": str(target), "recipe": way.recipe}
        _make({**task, "calibrate": way.calibrate, "samples": files}, job)
        try:
            return TfliteNetwork(target.read_bytes(), name=tflite.name)
        except UsageError as error:  # nobody gave us this file: it is the tool's
            raise EngineError(
                f"ai-edge-quantizer wrote a file that LiteRT cannot load: {error.what}",
                stage="quantise the network",
                hint=f"try quantize={'dynamic' if way.how == 'static' else 'static'}, which is written differently",
            ) from error


def _version(package: str, extra: str = "litert-convert") -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise MissingExtra(package, extra) from None


def _make(task: Mapping[str, Any], job: Job) -> None:
    convert = task["do"] == "convert"
    stage = "convert the network" if convert else "quantise the network"
    worker = _SPARES.take(job.limit_of("start"))
    worker.name = "litert-torch" if convert else "ai-edge-quantizer"
    # What a failure leaves behind shall not spoil the next conversion.
    with undoing(lambda: worker.close(stuck=True)):
        said = worker.ask(task, stage, job.limit_of(stage))
    if said["memory"] < _LIGHT:
        _SPARES.keep(worker)
    else:
        worker.close()
