"""A model under test: its network, inputs, layers, and what the reference computed in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twinnet.cache import cached_folder, content_key
from twinnet.errors import EngineError, TwinnetError
from twinnet.files import read_json
from twinnet.suite.config import Config
from twinnet.suite.models import Model, file_hash
from twinnet.suite.stamps import code_stamp, here_stamp, inputs_stamp
from twinnet.trust import trusting

if TYPE_CHECKING:
    from twinnet.checking.options import Options
    from twinnet.cutting import Cut, Cutter, Layer
    from twinnet.network import Network

__all__ = ["Captured", "Subject", "subject_of"]

_T = TypeVar("_T")

_LISTING, _PLAN, _RECORDING = "layers.json", "plan.json", "recording"


@dataclass(frozen=True)
class Captured:
    """What the reference computed in a model on its first sample.

    `same` maps each layer to its identity; layers that cannot run alone are in `alone`, with the reason.
    """

    key: str
    folder: Path
    same: Mapping[str, str]
    alone: Mapping[str, str] = field(default_factory=dict)

    def like(self, layer: str) -> tuple[str, ...]:
        """All layers that are identical with this one, itself included, in the order of the model."""
        identity = self.same.get(layer)
        return tuple(name for name, other in self.same.items() if other == identity)


_RECENT: list[Subject] = []


def subject_of(model: Model, config: Config) -> Subject:
    """The subject of a model, kept while its cases run one after the other."""
    now = file_hash(model.path)
    for subject in _RECENT:
        if subject.model == model and subject.config == config and subject.file == now:
            return subject
    _RECENT.append(Subject(model, config))
    del _RECENT[:-4]
    return _RECENT[-1]


class Subject:
    """One model. Nothing is read before it is asked for; a case whose outcome is known asks for little."""

    def __init__(self, model: Model, config: Config) -> None:
        self.model = model
        self.config = config
        self.settings = config.of_model(model.name)
        self.file = file_hash(model.path)
        self._failures: dict[str, TwinnetError] = {}

    # -- the network -------------------------------------------------------------------------------------------------

    @cached_property
    def network(self) -> Network:
        """The network, with shapes for its inputs: those that are stated, or usual ones where it leaves them open."""
        return self._tried("network", self._load)

    def _load(self) -> Network:
        from twinnet.inputs.synthetic import suggest_shape
        from twinnet.network import load_network
        from twinnet.network.shapes import parse_shapes

        where = str(self.model.path)
        if self.model.is_code:
            where += f":{self.settings.factory or 'build'}"
        with trusting(self.config.trust):
            shapes = parse_shapes([f"{name}={text}" for name, text in self.settings.shape.items()])
            loaded = load_network(where, shape=shapes or None, name=self.model.name)
        if self.settings.inputs is not None:
            return loaded
        open_ones = [s for s in loaded.signature.inputs if s.dynamic and not s.optional]
        return loaded.with_shapes({spec.name: suggest_shape(spec) for spec in open_ones})

    def inputs(self) -> Any:
        """The inputs as `check` takes them: paths below the suite's folder, or None for synthetic ones."""
        stated = self.settings.inputs
        if stated is None:
            return None
        return [self._placed(text) for text in ([stated] if isinstance(stated, str) else stated)]

    def _placed(self, text: str) -> str:
        name, equals, file = text.rpartition("=")
        path = self.config.root / file
        inside = path.exists() or (self.config.root / file.rpartition(":")[0]).is_file()
        return f"{name}{equals}{path}" if inside else text

    def options(self, **more: Any) -> Options:
        """The options of a check of this model."""
        from twinnet.checking.options import Limits, Options

        stated = self.settings.tolerance
        return Options(
            preprocess=None if self.settings.preprocess is None else self._placed(self.settings.preprocess),
            seed=self.config.seed,
            tolerance=self.config.tolerance if stated is None else str(self.config.root / stated),
            limits=Limits(self.config.threads, None, self.config.limits_of()),
            debug_ir=self.config.debug_ir,
            on=self.config.board,
            **{"samples": self.settings.samples, **more},
        )

    @cached_property
    def content(self) -> str:
        """A hash of the model's content: its file and those it refers to, or the program that its code makes."""
        if self.model.is_code:
            return self._code_content()
        folder = self.model.path.parent
        others = (folder / name for name in self.listing["files"])
        return content_key(file_hash(self.model.path), *(file_hash(p) for p in others if p.exists()))

    def _code_content(self) -> str:
        from twinnet.network.content import exported_program, program_content

        network = self.network
        program = exported_program(network, self.sample(), "taken apart", "FILE.onnx")
        return content_key(*program_content(program), self.model.name)

    def sample(self) -> dict[str, Any]:
        """The first sample of the inputs."""
        from twinnet.checking.case import read_network

        _, feed = read_network(self.network, self.inputs(), self.options())
        return dict(feed.samples[0])

    # -- layers ------------------------------------------------------------------------------------------------------

    @cached_property
    def listing(self) -> Mapping[str, Any]:
        """The layers of the model and the files it refers to, read once for the content of its file."""
        from twinnet.files import atomic_write

        key = content_key("suite-layers", code_stamp(), self.model.kind, *self._listed_by())

        def build(folder: Path) -> None:
            layers = [[x.name, x.op, list(x.outputs)] for x in self._cutter.layers()]
            base = self.model.path.parent.resolve()
            files = [os.path.relpath(p.resolve(), base) for p in self.network.external]
            data = {"layers": layers, "files": files}
            atomic_write(folder / _LISTING, json.dumps(data).encode())

        made = self._tried("listing", lambda: cached_folder(key, build))
        return read_json(made / _LISTING, "list of layers")

    def _listed_by(self) -> list[str]:
        words = [file_hash(self.model.path)]
        if self.model.kind == "program":
            words += [repr(self.settings), here_stamp()]
        if self.model.is_code:  # it may import its neighbours
            words += [file_hash(p) for p in sorted(self.model.path.parent.rglob("*.py"))]
        return words

    def _tried(self, what: str, ask: Callable[[], _T]) -> _T:
        """What was refused once is refused again, without trying."""
        if what in self._failures:
            raise self._failures[what]
        try:
            return ask()
        except TwinnetError as error:
            self._failures[what] = error
            raise

    def layers(self) -> tuple[Layer, ...]:
        """The layers, from the listing."""
        from twinnet.cutting import Layer

        found = self.listing["layers"]
        return tuple(Layer(name, op, tuple(outputs)) for name, op, outputs in found)

    @cached_property
    def _cutter(self) -> Cutter:
        from twinnet.cutting import cutter_for

        return cutter_for(self.network, self.sample() if self.model.kind == "program" else {})

    @cached_property
    def _by_name(self) -> Mapping[str, Layer]:
        return {layer.name: layer for layer in self._cutter.layers()}

    # -- activations -------------------------------------------------------------------------------------------------

    @cached_property
    def captured(self) -> Captured:
        """What the reference computed, captured once for the content of the model and its inputs."""
        key = content_key(
            "suite-capture",
            here_stamp(),
            self.content,
            inputs_stamp(self.settings, self.config),
            str(self.config.threads),
        )
        folder = self._tried("capture", lambda: cached_folder(key, self._capture))
        plan = read_json(folder / _PLAN, "plan of layers")
        return Captured(key, folder, plan["same"], plan["alone"])

    def _capture(self, folder: Path) -> None:
        from twinnet.checking.record import record_with
        from twinnet.files import atomic_write

        options = replace(self.options(samples=1), debug_ir=None, on=None)
        with trusting(self.config.trust):
            record_with(options, self.network, self.inputs(), folder / _RECORDING)
        values = _recorded(folder)
        same: dict[str, str] = {}
        alone: dict[str, str] = {}
        for name, layer in self._by_name.items():
            try:
                same[name] = self._cutter.cut(layer, values, name).identity
            except TwinnetError as error:  # it does not stop the others
                alone[name] = error.what
        atomic_write(folder / _PLAN, json.dumps({"same": same, "alone": alone}).encode())

    def cut(self, layer: str) -> Cut:
        """One layer with the values it read."""
        found = self._by_name.get(layer)
        if found is None:
            raise EngineError(
                f"{self.model.name} has no layer {layer} any more",
                stage="cut",
                hint="its code has changed: list the layers again with --recompute-cache",
            )
        return self._cutter.cut(found, self._values, f"{self.model.name}.{layer}")

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        return _recorded(self.captured.folder)


def _recorded(folder: Path) -> Mapping[str, Any]:
    """The tensors of the recording, by name; each is read when it is asked for."""
    from collections import ChainMap

    from twinnet.recording import load_recording

    recording = load_recording(folder / _RECORDING)
    trace, sample = recording.trace(0), recording.sample(0)
    given: dict[str, Any] = {
        theirs: sample[ours] for ours, theirs in recording.inputs.items() if ours in sample
    }
    return ChainMap(given, trace)  # type: ignore[arg-type]
