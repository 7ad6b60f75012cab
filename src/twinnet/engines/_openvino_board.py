"""OpenVINO on a board: the same tensors, seen from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines import _openvino_program
from twinnet.engines._elsewhere import Elsewhere
from twinnet.engines.onnx_session import Runner, TappedSession
from twinnet.engines.openvino import declared, with_shapes
from twinnet.errors import EngineError, undoing
from twinnet.job import Arrays, Job
from twinnet.programs.place import Script
from twinnet.site import Site

if TYPE_CHECKING:
    import onnx

    from twinnet.onnx.export import OnnxArtefact

__all__ = ["OpenVinoOnBoard"]


class OpenVinoOnBoard(TappedSession):
    """One model under one set of properties. Tapped models are compiled there when first needed."""

    engine = "openvino"

    def __init__(
        self, artefact: OnnxArtefact, config: Mapping[str, Any], job: Job, version: str, *, static: bool
    ) -> None:
        super().__init__(artefact, job)
        self.version = version
        self._config = dict(config)
        model = with_shapes(artefact, job) if static else artefact.model
        self._data = artefact.network.complete(model).SerializeToString()
        script = Script(Path(_openvino_program.__file__), "openvino", ("numpy", "openvino"))
        self._home = Elsewhere(script, job)
        with undoing(self.close):
            told = self.runner.session.said
        asked = str(self._config["INFERENCE_PRECISION_HINT"])
        self.precision, self.notes = declared(asked, str(told["precision"]), wide=bool(told["wide"]))

    def _load(self, data: bytes, outputs: Sequence[str], taps: Sequence[str] = ()) -> _Loaded:
        names = [*outputs, *taps]
        with self._job.step("load"):
            settings = {"config": self._config, "taps": list(taps), "outputs": names}
            session = self._home.load(data, settings)
        if session.said["outputs"] != names:
            raise EngineError(
                f"openvino did not keep the network's {len(names)} outputs", stage="load the network"
            )
        return _Loaded(session, self._job)

    @cached_property
    def runner(self) -> _Loaded:
        return self._load(self._data, self._cut.outputs)

    def load_part(self, model: onnx.ModelProto) -> Runner:
        data = self._artefact.network.complete(model).SerializeToString()
        return self._load(data, [o.name for o in model.graph.output])

    def load_tapped(self, names: Sequence[str]) -> Runner:
        return self._load(self._data, self._cut.outputs, [n for n in names if n not in self._cut.outputs])

    @cached_property
    def sites(self) -> tuple[Site, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        alive = {str(n) for n in self.runner.session.said["alive"]} | set(self._cut.outputs)
        return self.sites_of(name for name in self._cut.observable if name in alive)

    def close(self) -> None:
        super().close()
        self._home.close()


class _Loaded:
    """A model that is compiled on the board."""

    def __init__(self, session: Any, job: Job) -> None:
        self.session = session
        self.inputs = [i.name for i in session.get_inputs()]
        self.outputs = [o.name for o in session.get_outputs()]
        self._job = job

    def __call__(self, feeds: Arrays) -> list[np.ndarray]:
        with self._job.step("run"):
            return self.session.run(self.outputs, {n: feeds[n] for n in self.inputs if n in feeds})
