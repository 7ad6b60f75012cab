"""The seed of a network that an engine refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines import Spec, find_engine, standalone_of
from twinnet.errors import EngineError, TwinnetError
from twinnet.onnx.export import onnx_artefact
from twinnet.precision import UNITS
from twinnet.shrink.seed import LARGEST, Place, Runner, Seed

if TYPE_CHECKING:
    import onnx

    from twinnet.shrink.collect import Source

__all__ = ["error_seed"]


def error_seed(source: Source, error: EngineError, *, opened: bool) -> Seed | None:
    """The ONNX network that an engine refused, as a seed; None if the error has another origin."""
    spec: Any = source.twin if opened else source.reference
    refused = bool(error.log) and error.stage.startswith(("load", "import", "compile", "run"))
    if not refused or not isinstance(spec, Spec) or spec.on:  # a repro runs here, and not on a board
        return None
    engine, side = find_engine(spec.engine), standalone_of(spec.engine)
    if side is None or not side.takes_onnx:
        return None
    try:
        file = spec.file if engine.file_is_network else None
        artefact = onnx_artefact(source.network, file, source.job)
        if sum(f.stat().st_size for f in artefact.network.external) > LARGEST:
            return None
        model: onnx.ModelProto = artefact.network.complete()
    except (TwinnetError, OSError):
        return None
    options = engine.standalone_options(spec.options, spec.file, source.job)
    seed = Seed(
        kind="error",
        place=Place("", source.network.name),
        network_side=Runner(),
        twin_side=Runner(spec.engine, options, engine.version()),
        twin=model,
        inputs={n: np.array(a) for n, a in artefact.feeds(source.job.inputs).items()},
        unit=UNITS["float32"],
        error=error.log or error.what,
    )
    return seed if seed.nbytes <= LARGEST else None
