"""The forms of a network on its way to an engine, each made from the previous one or given as a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines import Spec, find_engine, reference_spec
from twinnet.errors import EngineError, UsageError, foreign
from twinnet.job import Job
from twinnet.network import ModuleNetwork, Network
from twinnet.trust import trusting

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from twinnet.engines.base import Engine

__all__ = ["NAMES", "Forge", "Form", "holds", "names_between", "names_for"]

NAMES = ("eager", "exported", "decomposed", "onnx", "optimised", "quantised", "engine")
"""The stages in order."""
_MAKING = ".making"


def names_for(engine: Engine | None) -> tuple[str, ...]:
    """The stages on the way to an engine: one with a format of its own has that in place of ONNX.

    >>> names_for(find_engine("litert"))
    ('eager', 'exported', 'decomposed', 'litert', 'quantised', 'engine')
    """
    if engine is None or not engine.stage:
        return NAMES
    return tuple(engine.stage if n == "onnx" else n for n in NAMES if n != "optimised")


Sample = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Form:
    """A network at one stage: `network` runs it as the reference of the next stage, `twin` as the twin of this one.

    `origin` maps its values to the equal values of the exported program; with `keeps_names` its values have the names
    of the previous stage. `inputs` maps the start's input names to its own.
    """

    stage: str
    what: str
    network: Any
    twin: Any
    file: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    keeps_names: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    source: Any = None
    """The network whose samples it is fed with, where its own inputs have another form (TFLite)."""

    @cached_property
    def values(self) -> frozenset[str]:
        """The names of all its values."""
        if isinstance(self.network, ModuleNetwork) and self.origin:
            return frozenset(n.name for n in self.network.program_for({}).graph.nodes)
        return (
            frozenset(_operators(self.file)) if self.file and self.network.format == "ONNX" else frozenset()
        )

    def feed(self, sample: Sample) -> dict[str, np.ndarray]:
        """A sample under this form's names, without inputs that it does not take."""
        named = {theirs: sample[ours] for ours, theirs in self.inputs.items() if ours in sample}
        if self.source is None:
            return named
        from twinnet.tflite.ends import sample_for

        return sample_for(self.network, self.source, named)


def names_between(before: Form, after: Form) -> dict[str, str] | None:
    """Map values of one form to equal values of the next, as far as known without running them."""
    if after.keeps_names:
        return {name: name for name in before.values}
    back = {trunk: own for own, trunk in before.origin.items()}
    found = {back[trunk]: own for own, trunk in after.origin.items() if trunk in back}
    if not found:
        return None
    # Both renumber their values, so equal names mean nothing.
    return {**dict.fromkeys(before.values & after.values - set(found), ""), **found}


def holds(path: Path) -> str:
    """The stage of an ONNX file, from its operators: "quantised", "optimised" (by ONNX Runtime) or "onnx"."""
    import onnx

    nodes = onnx.load(str(path), load_external_data=False).graph.node
    if any(n.op_type.startswith(("QLinear", "Quantize", "Dequantize", "DynamicQuantize")) for n in nodes):
        return "quantised"
    if any(n.op_type in ("ConvInteger", "MatMulInteger") for n in nodes):
        return "quantised"
    return "optimised" if any(n.domain.startswith(("com.microsoft", "com.ms.")) for n in nodes) else "onnx"


class Forge:
    """Makes the forms of one network; `folder` takes the files, `given` are files of the user's own, by stage.

    `twin` is the final twin.
    """

    def __init__(
        self, network: Network, sample: Sample, folder: Path, given: Mapping[str, str], twin: Any, job: Job
    ) -> None:
        self.network = network
        self.sample = sample
        self.folder = folder
        self.given = given
        self.twin = twin
        self.job = job
        self._same = {name: name for name in sample}

    def start(self) -> Form:
        """The network itself, at the stage of its format."""
        form = self.network.format
        stage = {"ONNX": "onnx", "TFLite": "litert", "exported program": "exported"}.get(form, "eager")
        if stage in ("onnx", "litert"):
            path = self.network.path
            words = f"the given {form} file"
            return Form(stage, words, self.network, "", str(path or ""), inputs=dict(self._same))
        if stage == "exported":
            trunk = self._program
            origin = {n.name: n.name for n in trunk.graph.nodes}
            return Form(stage, "the given program", self.network, "", origin=origin, inputs=dict(self._same))
        return Form(stage, "the module as Python runs it", self.network, "", inputs=dict(self._same))

    def make(self, stage: str, before: Mapping[str, Form]) -> Form:
        """The form of a stage; EngineError where it cannot be made. `before` are the forms made so far."""
        engine = find_engine(self.twin.engine) if isinstance(self.twin, Spec) else None
        if engine is not None and engine.stage and stage in (engine.stage, "quantised"):
            return self._own_format(engine, stage)
        return getattr(self, f"_{stage}")(before)

    # -- torch ---------------------------------------------------------------------------------------------------

    @cached_property
    def _program(self) -> ExportedProgram:
        """The program that torch.export makes of the network, from which all later forms are made."""
        assert isinstance(self.network, ModuleNetwork)
        return self.network.program_for(self.sample)

    def _exported(self, before: Mapping[str, Form]) -> Form:
        from twinnet.network.exported import ExportedNetwork

        program = self._program
        network = ExportedNetwork(program, name=self.network.name)
        return Form(
            "exported",
            "what torch.export made of it",
            network,
            "",
            origin={n.name: n.name for n in program.graph.nodes},
            inputs=_by_position(self.sample, [s.name for s in network.signature.inputs]),
        )

    def _decomposed(self, before: Mapping[str, Form]) -> Form:
        import torch

        from twinnet.network.exported import ExportedNetwork
        from twinnet.onnx.export import same_values

        trunk = self._program
        path = self.folder / "decomposed.pt2"
        with torch.no_grad(), self._whole(path) as new, foreign("make the stage decomposed", "torch"):
            program = trunk.run_decompositions()
            torch.export.save(program, new)
        with trusting():  # it was written here a moment ago
            network = ExportedNetwork.load(path, name=self.network.name)
        # Reading the file may renumber its nodes, but keeps their order.
        made, read = list(program.graph.nodes), list(network.exported().graph.nodes)
        origin: dict[str, str] = {}
        if [str(n.target) for n in made if n.op == "call_function"] == [
            str(n.target) for n in read if n.op == "call_function"
        ]:
            renamed = dict(
                zip(*([n.name for n in g if n.op == "call_function"] for g in (made, read)), strict=True)
            )
            origin = {renamed[n]: t for n, t in same_values(trunk, program).items() if n in renamed}
        return Form(
            "decomposed",
            "its operators decomposed into core ATen",
            network,
            str(replace(reference_spec(network), file=str(path))),
            str(path),
            origin,
            inputs=_by_position(self.sample, [s.name for s in network.signature.inputs]),
        )

    # -- ONNX ----------------------------------------------------------------------------------------------------

    def _onnx(self, before: Mapping[str, Form]) -> Form:
        from twinnet.onnx.export import onnx_artefact

        given = self.given.get("onnx")
        try:
            ours = onnx_artefact(self.network, None, self.job)
        except EngineError:
            if given is None:
                raise
            ours = None
        origin = dict(ours.provenance or {}) if ours is not None else {}
        if given is not None:
            kept = _operators(given)
            made = {n: o.op_type for o in ours.model.graph.node for n in o.output} if ours is not None else {}
            origin = {n: t for n, t in origin.items() if n in kept and kept[n] == made.get(n)}
            return self._file("onnx", "the given ONNX file", Path(given), origin=origin)
        assert ours is not None and ours.path is not None
        path = self.folder / "network.onnx"
        if ours.path.with_name(f"{ours.path.name}.data").exists():
            path = ours.path  # weights beside the file: too large to copy
        else:
            with self._whole(path) as new:
                shutil.copyfile(ours.path, new)
        names = {a: b for a, b in ours.inputs.items() if a in self.sample}
        return self._file("onnx", "converted to ONNX, run without optimisation", path, names, origin)

    def _optimised(self, before: Mapping[str, Form]) -> Form:
        given = self.given.get("optimised")
        if given is not None:
            path = Path(given)
            made_by_ort = holds(path) == "optimised"
            return self._file("optimised", "the given optimised file", path, keeps_names=made_by_ort)
        source = before["onnx"]
        path = self.folder / "optimised.onnx"
        with self._whole(path) as new:
            what = find_engine(self.twin.engine).save_optimised(source.file, self.twin.options, new, self.job)
        return self._file(
            "optimised",
            what,
            path,
            source.inputs,
            {n: t for n, t in source.origin.items() if n in _operators(str(path))},
            keeps_names=True,
        )

    def _quantised(self, before: Mapping[str, Form]) -> Form:
        return self._file("quantised", "the given quantised file", Path(self.given["quantised"]))

    def _own_format(self, engine: Engine, stage: str) -> Form:
        """The network in the format of the twin's engine, as it is or quantised."""
        given = self.given.get(stage)
        if given is not None:
            made = self._file(stage, "the given file", Path(given), form=engine.formats[0])
            return replace(made, source=self.network)
        options = {k: v for k, v in self.twin.options.items() if k in engine.making}
        path = self.folder / f"{stage}{engine.suffixes[0]}"
        with self._whole(path) as new:
            what = engine.save_stage(self.network, options if stage == "quantised" else {}, new, self.job)
        return replace(self._file(stage, what, path, form=engine.formats[0]), source=self.network)

    @contextmanager
    def _whole(self, path: Path) -> Iterator[Path]:
        """Where to write a file of a stage; when it is whole it moves to its name, and so do weights beside it."""
        making = self.folder / _MAKING
        shutil.rmtree(making, ignore_errors=True)  # of a run that was killed
        try:
            making.mkdir(parents=True)
            yield making / path.name
            for file in sorted(making.iterdir(), key=lambda p: p.name == path.name):
                file.replace(self.folder / file.name)
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _file(
        self,
        stage: str,
        what: str,
        path: Path,
        inputs: Mapping[str, str] | None = None,
        origin: Mapping[str, str] | None = None,
        *,
        keeps_names: bool = False,
        form: str = "ONNX",
    ) -> Form:
        from twinnet.network import load_network

        network = load_network(path, name=self.network.name)
        if network.format != form:
            raise UsageError(f"{path} is not a file of format {form}", hint=f"the stage {stage} needs one")
        names = inputs or _by_position(self.sample, [s.name for s in network.signature.inputs])
        twin = str(replace(reference_spec(network), file=str(path)))
        return Form(stage, what, network, twin, str(path), origin or {}, keeps_names, names)


def _by_position(sample: Sample, names: list[str]) -> dict[str, str]:
    """Input names of the start to those of a form: by name where all are there, else by position."""
    if set(names) <= set(sample):
        return {name: name for name in names}
    if len(names) != len(sample):
        raise EngineError(
            f"it takes {len(names)} inputs ({', '.join(names)}), the network {len(sample)}", stage="pair"
        )
    return dict(zip(sample, names, strict=True))


def _operators(path: str) -> dict[str, str]:
    """The operator behind each value of an ONNX file."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    return {name: node.op_type for node in graph.node for name in node.output if name}
