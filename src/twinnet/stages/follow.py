"""The steps from stage to stage, each an ordinary check."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinnet.checking.options import Options, StagesKeywords, options_of, spelt
from twinnet.engines import Spec, engine_for_format, find_engine, parse_specs
from twinnet.errors import EngineError, UsageError
from twinnet.extras import optional_packages
from twinnet.result import Result, ResultSet, SideInfo, Stage, StagedResult, Step
from twinnet.scratch import scratch_folder
from twinnet.trust import trusting

if TYPE_CHECKING:
    from twinnet.network import Network
    from twinnet.stages.forms import Forge, Form

__all__ = ["Route", "read_stage_files", "stages", "stages_with"]

_FILES = ("onnx", "optimised", "quantised")
_ONE_STEP = ("names", "baseline", "watch", "skip", "advise")


def read_stage_files(given: Iterable[str]) -> dict[str, str]:
    """Parse `NAME=FILE` of each stage that is given as a file.

    >>> read_stage_files(["quantised=int8.onnx"])
    {'quantised': 'int8.onnx'}
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or name not in _FILES or not file:
            raise UsageError(
                f"--stage {text} is not valid", hint=f"NAME=FILE.onnx, NAME one of: {', '.join(_FILES)}"
            )
        found[name] = file
    return found


@spelt(StagesKeywords)
def stages(
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    files: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    trust: bool = False,
    argv: Sequence[str] = (),
    **keywords: Unpack[StagesKeywords],
) -> StagedResult:
    """Follow a network through its stages and find the one where a difference enters.

    The keywords are those of `twinnet.check`, for one twin. Each stage is judged against the previous one and against
    the network. `files` gives ONNX files that your own pipeline wrote, by stage ("onnx", "optimised", "quantised"); the
    stage of a file in the twin's spec is found from its content. `entered` of the result is the stage where the
    difference enters, or None.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    >>> found = stages(net, torch.ones(1, 4), "torch?dtype=float64")
    >>> found.verdict, [s.name for s in found.stages if s.state != "skipped"]
    ('PASS', ['eager', 'engine'])
    """
    with trusting(trust), options_of(StagesKeywords, keywords) as options:
        return stages_with(options, Route(network, inputs, twin, files or {}), out=out, argv=argv)


@dataclass(frozen=True)
class Route:
    """The network, its inputs, the twin, and files for stages in between."""

    network: Any
    inputs: Any = None
    twin: Any = "onnxruntime"
    files: Mapping[str, str] = field(default_factory=dict)


@optional_packages()
def stages_with(
    options: Options, route: Route, *, out: str | Path | None = None, argv: Sequence[str] = ()
) -> StagedResult:
    """Do what `stages` does, with the options as one object. Options of a single check are refused."""
    from twinnet.checking.case import modes_kept
    from twinnet.report.files import run_written, write_run

    for name in _ONE_STEP:
        if getattr(options, name):
            raise UsageError(f"--stages takes no --{name}", hint="it belongs to a single check")
    with modes_kept(route.network), ExitStack() as stack:
        folder = Path(out) if out is not None else None
        stage = stack.enter_context(run_written(folder))
        held = folder or stack.enter_context(scratch_folder("stages"))
        if folder is not None:
            (folder / "result.json").unlink(missing_ok=True)  # the folders inside are about to change
        result = _Walk(route, options, folder, held / "files", tuple(argv)).result()
        if stage is not None:
            write_run(result, stage, page=folder)
    return result


class _Walk:
    """One walk from the network to its engine."""

    def __init__(
        self, route: Route, options: Options, folder: Path | None, held: Path, argv: tuple[str, ...]
    ) -> None:
        from twinnet.checking.case import placed, read_network
        from twinnet.job import Job
        from twinnet.stages.forms import Forge

        self._options = replace(options, on=None)  # of all stages, only the twin may run elsewhere
        self._folder = folder
        self._argv = argv
        self._progress = options.progress
        self._network, self._feed = read_network(route.network, route.inputs, options)
        self._twin: Any = placed(_one_twin(route.twin, self._network), options.on)
        self._samples = list(self._feed.samples)
        self._files = self._placed(dict(route.files))
        held.mkdir(parents=True, exist_ok=True)
        job = Job(
            inputs=self._samples[0],
            samples=self._samples,
            threads=options.limits.threads,
            time_limit=options.limits.time_limit,
            memory=options.limits.memory,
        )
        self._twin_engine = find_engine(self._twin.engine) if isinstance(self._twin, Spec) else None
        self._forge: Forge = Forge(self._network, self._samples[0], held, self._files, self._twin, job)
        self._results: list[Result] = []
        self._stages: list[Stage] = []
        self._forms: dict[str, Form] = {}

    def _placed(self, files: dict[str, str]) -> dict[str, str]:
        """Files by stage, including the one of the twin's spec; raises if one cannot be read."""
        from twinnet.network import load_network
        from twinnet.stages.forms import holds

        spec = self._twin
        for path in files.values():
            load_network(path)
        file = spec.file if isinstance(spec, Spec) else None
        if file and Path(file).suffix == ".onnx" and file not in files.values():
            load_network(file)
            stage = holds(Path(file))
            if stage == "onnx" and self._network.format == "ONNX":
                stage = "optimised"
            files = {stage: file, **files}
        own = find_engine(spec.engine) if isinstance(spec, Spec) else None
        if own is not None and own.stage and file and file not in files.values():
            stage = "quantised" if getattr(load_network(file), "quantised", "") else own.stage
            files = {stage: file, **files}
        if self._network.format == "ONNX" and "onnx" in files:
            raise UsageError("the network is already an ONNX file, so the stage onnx cannot be given")
        return files

    # -- the way -------------------------------------------------------------------------------------------------

    def result(self) -> StagedResult:
        """Take every step."""
        from twinnet.stages.forms import names_for

        names = names_for(self._twin_engine)
        start = self._forge.start()
        if start.stage not in names:
            raise UsageError(
                f"a network of format {self._network.format} is not on the way to {_words(self._twin)}",
                hint="twinnet check compares them directly",
            )
        self._forms[start.stage] = start
        self._stages.append(Stage(start.stage, start.what, "start", file=start.file))
        self._start = self._last = start
        for name in names[names.index(start.stage) + 1 :]:
            reason = self._off_the_way(name)
            if reason:
                self._stages.append(Stage(name, state="skipped", reason=reason))
            elif name == "engine":
                self._engine()
            else:
                self._step(name)
        return StagedResult(
            results=tuple(self._results),
            stages=tuple(self._stages),
            network=self._network_info(),
            twin=_words(self._twin),
            inputs=self._feed.info,
            command=shlex.join(self._argv),
            folder="" if self._folder is None else str(self._folder),
        )

    def _off_the_way(self, name: str) -> str:
        engine = self._twin_engine
        if name in self._files or name == "engine":
            return ""
        if engine is not None and engine.takes == "network":
            return f"{engine.name} takes the network itself"
        if name == "quantised" and engine is not None and engine.stage:
            made = any(key in self._twin.options for key in engine.making)
            return "" if made else "the twin is not quantised"
        if name == "quantised":
            return "no quantised file is given"
        if name == "optimised":
            if engine is None or not engine.abilities.optimised:
                return f"{_words(self._twin)} does not show what its optimiser makes"
            if engine.as_written.items() <= self._twin.options.items():
                return "the twin runs without optimisation"
        return ""

    def _step(self, name: str) -> None:
        """Make one form of the network, and compare it with the previous stage and with the start."""
        self._progress(f"{name}: making it", None)
        try:
            if name == "optimised" and name not in self._files and "onnx" not in self._forms:
                raise EngineError(
                    "there is no ONNX file to optimise: the stage onnx could not be made", stage="onnx"
                )
            form = self._forge.make(name, self._forms)
        except EngineError as error:
            self._failed(name, error)
            return
        before = self._compare(name, self._made_from(name), form)
        result = self._results[before.result] if before.result is not None else None
        if before.verdict == "ERROR":
            reason = result.error if result is not None else ""
            self._stages.append(Stage(name, form.what, "error", reason, form.file, before))
            return
        against = before if before.against == self._start.stage else self._against_start(form)
        self._stages.append(Stage(name, form.what, "ran", "", form.file, before, against))
        self._forms[name] = self._last = form

    def _made_from(self, name: str) -> Form:
        """The previous stage: the last that ran. A given quantised file was not made from a file optimised here."""
        if name == "quantised" and "optimised" not in self._files and "onnx" in self._forms:
            return self._forms["onnx"]
        return self._last

    def _engine(self) -> None:
        """The last stage: the twin itself."""
        from twinnet.stages.forms import Form

        spec = self._twin
        form = Form("engine", "the twin as it ships", None, self._original())
        last = self._last
        engine = self._twin_engine
        if last.file and last.network is not None and engine is not None and engine.takes != "network":
            source = self._forms.get("onnx")
            if spec.file is None and source is not None:
                form = replace(form, twin=str(replace(spec, file=source.file)))
            if engine.stage and spec.file is None:
                how = {k: v for k, v in spec.options.items() if k not in engine.making}
                form = replace(form, twin=str(replace(spec, options=how, file=last.file)))
            form = replace(form, keeps_names=engine.takes == "onnx")
        before = self._compare("engine", last, form)
        what = f"the twin: {_words(spec)}"
        if before.verdict == "ERROR":
            assert before.result is not None
            reason = self._results[before.result].error
            self._stages.append(Stage("engine", what, "error", reason, before=before))
            return
        against = before
        if last is not self._start:
            whole = replace(form, twin=self._original(), keeps_names=False)
            against = self._compare("engine", self._start, whole, folder="engine-network")
        self._stages.append(Stage("engine", what, "ran", before=before, network=against))

    # -- one step ------------------------------------------------------------------------------------------------

    def _compare(self, name: str, before: Form, after: Form, folder: str = "") -> Step:
        """Check one form against another."""
        from twinnet.check import check_with
        from twinnet.stages.forms import names_between

        number = len(self._stages)
        out = None if self._folder is None else self._folder / (folder or f"{number}-{name}")
        options = self._step_options(name, before is self._start)
        samples: Any = [before.feed(s) for s in self._samples]
        network, twin, names = before.network, after.twin, names_between(before, after)
        if name == "exported":
            # Judge from the program's side: it has a graph, which shows in which submodule they differ.
            from twinnet.layers.read_fx import read_fx
            from twinnet.stages.eager import eager_twin, module_results

            network, options = after.network, replace(options, reference=None)
            samples = [after.feed(s) for s in self._samples]
            twin = eager_twin(before.network, list(after.inputs))
            names = module_results(read_fx(after.network.exported()))
        options = replace(options, names=names)
        result = check_with(options, network, samples, twin, out=out, argv=self._argv)
        assert isinstance(result, Result)
        self._results.append(result)
        return replace(_step(before.stage, result), result=len(self._results) - 1)

    def _against_start(self, form: Form) -> Step:
        """How far a stage is from the network: at the outputs, or by the steps of its layers if it is quantised.

        Outputs alone cannot show what the steps do not explain, and would pass what the step into the stage fails.
        """
        from twinnet.check import check_with

        options = replace(self._step_options(form.stage, True), keep="none")
        options = options if form.stage == "quantised" else replace(options, level="outputs")
        result = check_with(options, self._start.network, self._samples, form.twin)
        assert not isinstance(result, ResultSet)
        return _step(self._start.stage, result)

    def _step_options(self, name: str, from_start: bool) -> Options:
        """The options of one step: samples are already made, and `reference` applies to the start only."""
        given = self._options
        return replace(
            given,
            reference=given.reference if from_start else None,
            shapes=None,
            preprocess=None,
            samples=None,
            seed=0,
            metric=given.metric if name == "engine" else None,
            debug_ir=given.debug_ir if name == "engine" else None,
            progress=lambda step, share: self._progress(f"{name}: {step}", share),
        )

    def _failed(self, name: str, error: EngineError) -> None:
        """A stage that could not be made."""
        number = len(self._stages)
        folder = "" if self._folder is None else str(self._folder / f"{number}-{name}")
        result = Result(
            verdict="ERROR",
            network=self._network_info(),
            twin=SideInfo(name, name, name),
            inputs=self._feed.info,
            error=error.what if error.hint is None else f"{error.what}\n  {error.hint}",
            stage=error.stage,
            accident=error.accident,
            log=error.log,
            command=shlex.join(self._argv),
            folder=folder,
        )
        if folder:
            from twinnet.report.files import run_written, write_run

            with run_written(Path(folder)) as stage:
                write_run(result, stage or folder)
        self._results.append(result)
        step = Step(self._last.stage, "ERROR", result=len(self._results) - 1)
        self._stages.append(Stage(name, "", "error", error.what, before=step))

    def _original(self) -> Any:
        return str(self._twin) if isinstance(self._twin, Spec) else self._twin

    def _network_info(self) -> SideInfo:
        net = self._network
        return SideInfo(net.name, engine_for_format(net.format).name, "", "", net.format, net.parameters)


def _one_twin(twin: Any, network: Network) -> Spec | Any:
    from twinnet.network import is_network

    if is_network(twin):
        raise UsageError(
            "a twin that is itself a network has no stages",
            hint="compare them with twinnet.check; stages follow one network to an engine",
        )
    if callable(twin):
        return twin
    specs = parse_specs(twin if isinstance(twin, str) else ",".join(twin))
    if len(specs) != 1:
        raise UsageError("stages need exactly one twin", hint="name one with --twin")
    if find_engine(specs[0].engine).reference(network) is not None:
        raise UsageError(
            f"nothing is exported on the way to {specs[0].engine}", hint="twinnet check compares it directly"
        )
    return specs[0]


def _words(twin: Any) -> str:
    return str(twin) if isinstance(twin, Spec) else getattr(twin, "__name__", "function")


def _step(against: str, result: Result) -> Step:
    """The figures of one check."""
    ratios = [x.ratio for x in (*result.findings, *result.outputs, *result.pairs) if x.ratio is not None]
    errors = [p.difference.max_abs for p in result.outputs]
    return Step(against, result.verdict, max(errors, default=None), max(ratios, default=None))
