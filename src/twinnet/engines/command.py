"""Any toolchain as an engine: a TOML file describes how to compile and run a network, and where its tensors are."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.cache import cached_folder, content_key
from twinnet.engines._command_alone import command_lines, read_results, tensor_files, write_feeds, write_files
from twinnet.engines._compiled_model import tensor_types
from twinnet.engines._compiled_session import CompiledSession
from twinnet.engines.base import Abilities, Engine, Session, Standalone
from twinnet.errors import EngineError, MissingExtra, UsageError, undoing
from twinnet.files import parse_json
from twinnet.job import Arrays, Job
from twinnet.programs.start import last_words
from twinnet.site import Site

if TYPE_CHECKING:
    import onnx

    from twinnet.engines._compiled_model import Prepared
    from twinnet.engines._toolchain import Toolchain
    from twinnet.network import Network
    from twinnet.onnx.export import OnnxArtefact

__all__ = ["CommandEngine"]


class CommandEngine(Engine):
    """Runs ONNX files, and torch networks after exporting them, through other people's programs."""

    name: ClassVar[str] = "command"
    extra: ClassVar[str | None] = "onnx"
    summary: ClassVar[str] = "any toolchain, described by a TOML file"
    abilities: ClassVar[Abilities] = Abilities(
        capture=True, segment="compile", note="what the TOML file says"
    )
    options: ClassVar[Mapping[str, str]] = {"KEY": "an option that the TOML file declares"}
    takes = "onnx"
    suffixes: ClassVar[tuple[str, ...]] = (".toml",)
    file_is_network: ClassVar[bool] = False
    board: ClassVar[tuple[str, ...] | None] = ()

    def version(self) -> str:
        from importlib.util import find_spec

        if find_spec("onnx") is None:
            raise MissingExtra("onnx", "onnx")
        from twinnet import __version__

        return __version__

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        self.version()
        from twinnet.engines._toolchain import Toolchain
        from twinnet.onnx.export import onnx_artefact

        tools = Toolchain.read(file, options, job)
        return CommandSession(onnx_artefact(network, None, job), tools, job)

    def standalone(self) -> Standalone:
        from twinnet.engines import _command_alone as alone
        from twinnet.engines._onnx_alone import typed_model

        helpers = (
            typed_model,
            alone.filled,
            alone.command_lines,
            alone.tensor_files,
            alone.write_feeds,
            alone.write_files,
            alone.read_results,
            alone.said_problem,
        )
        return Standalone(alone.run_command, helpers, "onnx", ("onnx",))

    def standalone_options(self, options: Mapping[str, str], file: str | None, job: Job) -> dict[str, str]:
        from twinnet.engines._toolchain import Toolchain

        return {"description": Toolchain.read(file, options, job).told()}

    def depends_on(self, options: Mapping[str, str], file: str | None) -> tuple[str, ...]:
        from twinnet.engines._toolchain import Toolchain

        return tuple(Toolchain.read(file, options, Job({})).fingerprint(running=True))

    def starts(self, options: Mapping[str, str]) -> tuple[str, ...]:
        try:
            told = parse_json(options["description"])
            lines = [*told["compile"], *told["run"]]
            shown = (" ".join(p if isinstance(p, str) else str(p["text"]) for p in line) for line in lines)
            return tuple(shown) or ("a program",)
        except (KeyError, TypeError, ValueError):
            return ("a program that is not described",)


class CommandSession(CompiledSession["_Built"]):
    """One network in one toolchain. Artefacts are compiled once and kept in the cache."""

    engine = "command"

    def __init__(self, artefact: OnnxArtefact, tools: Toolchain, job: Job) -> None:
        found = tools.found
        super().__init__(
            artefact,
            job,
            name=found.name,
            static=found.shapes == "static",
            oldest=found.opset,
            opset=found.opset,
        )
        self._tools = tools
        self._room = job.place.room("command")
        with undoing(self.close):
            self.version = tools.version(self._room)
            self.precision = tools.precision
            self._module(artefact.feeds(job.inputs), frozenset())

    def close(self) -> None:
        self._room.close()

    # -- compiling -----------------------------------------------------------------------------------------------

    def _compile(self, model: onnx.ModelProto, prepared: Prepared, outputs: tuple[str, ...]) -> _Built:
        data = model.SerializeToString(deterministic=True)
        key = content_key("command", *self._tools.fingerprint(), data)
        folder = cached_folder(key, lambda made: self._build(model, prepared.inputs, data, made))
        types = {n: t for n, t in tensor_types(model.graph.output).items() if n in outputs}
        return _Built(folder, model.graph.name, prepared.inputs, outputs, types)

    def _build(self, model: onnx.ModelProto, names: tuple[str, ...], data: bytes, folder: Path) -> None:
        (folder / "network.onnx").write_bytes(data)
        step = self._tools.found.compile
        if step is None:
            return
        target = folder / step.artefact
        values = {
            **self._tools.values,
            "model": str(folder / "network.onnx"),
            "graph": model.graph.name,
            "artefact": str(target),
            "folder": str(folder),
        }
        # A part takes other inputs than the network; open dimensions come from the sample.
        declared = tensor_types(i for i in model.graph.input if i.name in names)
        sampled = _feed_types(self._artefact.feeds(self._job.inputs))
        types = {n: t if t[1] is not None else sampled.get(n, t) for n, t in declared.items()}
        inputs = tensor_files(list(names), types, self._tools.found.tensors.inputs, "", "")
        with self._job.step("compile"):
            for line in command_lines(step.plain(), values, inputs, []):
                self._tools.compile(line, step.time_limit, folder)
        if not target.exists():
            raise EngineError(
                f"{self._tools.found.name}: the compile step succeeded but did not write {step.artefact}",
                stage="compile the network",
                hint=f"it must write {{artefact}}: see [compile] in {self._tools.path}",
            )

    def estimates(self) -> Mapping[str, float]:
        step = self._tools.found.compile
        if step is None or not step.report:
            return {}
        built = self._module(self._artefact.feeds(self._job.inputs), frozenset())
        return _reported(built.folder / step.report)

    @property
    def size(self) -> int | None:
        step = self._tools.found.compile
        built = self._module(self._artefact.feeds(self._job.inputs), frozenset())
        return (built.folder / (step.artefact if step is not None else "network.onnx")).stat().st_size

    # -- running -------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[Site, ...]:
        if self._tools.found.intermediates.how == "none":
            return self.sites_of(n for n in self._cut.observable if n in self._cut.outputs)
        return super().sites

    def _taps(self, watch: frozenset[str]) -> frozenset[str]:
        return watch if self._tools.found.intermediates.how == "outputs" else frozenset()

    def _call(self, module: _Built, feeds: Arrays, watch: frozenset[str]) -> dict[str, np.ndarray]:
        """Run the programs once in a temporary folder and return the tensors they wrote."""
        found, form = self._tools.found, self._tools.found.tensors
        written = sorted(watch) if found.intermediates.how == "files" else []
        with self._job.step("run"), tempfile.TemporaryDirectory(dir=self._room.folder) as made:
            home = Path(made)
            for part in ("inputs", "outputs"):
                (home / part).mkdir()
            into, out = str(home / "inputs"), str(home / "outputs")
            ins = tensor_files(list(module.inputs), _feed_types(feeds), form.inputs, into, form.input_files)
            outs = tensor_files(
                list(module.outputs), dict(module.types), form.outputs, out, form.output_files
            )
            write_feeds(ins, dict(feeds), form.inputs)
            model, artefact = self._files(module)

            def there(path: str | Path) -> str:
                return self._room.there(Path(path))

            values = {
                **self._tools.values_at(self._room),
                "model": model,
                "graph": module.graph,
                "artefact": artefact,
                "folder": there(home),
                "inputs": there(into),
                "outputs": there(out),
                **{f"inputs[{f['name']}]": there(f["file"]) for f in ins},
            }
            seen_ins, seen_outs = ([{**f, "file": there(f["file"])} for f in some] for some in (ins, outs))
            log = ""
            commands = found.run.plain(found.run.watch if written else ())
            files = {name: part.model_dump() for name, part in found.run.files.items()}
            try:
                write_files(files, str(home), values, seen_ins, seen_outs)
                self._room.push(home)
                for line in command_lines(commands, values, seen_ins, seen_outs):
                    log += self._tools.run(line, self._room, home)
                self._room.pull(home / "outputs")
                results = read_results(outs, dict(module.types), form.outputs, form.raw_dtype)
                if written:
                    known = tensor_types(self._prepared(feeds).tapped(written)[0].graph.output)
                    inner = tensor_files(written, known, form.outputs, out, found.intermediates.files)
                    results |= read_results(inner, known, form.outputs, form.raw_dtype)
            except KeyError as error:
                raise UsageError(
                    f"{self._tools.path}: the network has no {error.args[0]}",
                    hint=f"its inputs: {', '.join(module.inputs)}",
                ) from None
            except (ValueError, OSError) as error:
                raise EngineError(
                    f"{found.name}: its output cannot be read: {error}",
                    stage="run the network",
                    log=last_words(log) or str(error),
                ) from None
            missing = [f for f in outs if f["name"] not in results]
            if missing:
                seen = sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())[:12]
                sought = Path(missing[0]["file"]).relative_to(home)
                raise EngineError(
                    f"{found.name}: the run succeeded but wrote no file for the output {missing[0]['name']}",
                    stage="run the network",
                    log=last_words(log) or "nothing was printed",
                    hint=f"looked for {sought}; there are: {', '.join(seen)}",
                )
        return results

    def _files(self, module: _Built) -> tuple[str, str]:
        """The names of model and artefact where the programs run."""
        step = self._tools.found.compile
        needed = self._tools.named_in_run()
        model = module.folder / "network.onnx"
        names = []
        for name, file in (("model", model), ("artefact", module.folder / step.artefact if step else model)):
            if name in needed and file.is_dir() and self._job.place.name:
                raise EngineError(
                    f"{self._tools.found.name}: an artefact that is a folder is not copied to a board",
                    stage="load the network",
                )
            names.append(self._room.give(file) if name in needed and file.is_file() else str(file))
        return names[0], names[1]


@dataclass(frozen=True, slots=True)
class _Built:
    """A compiled network: its folder in the cache, and what its programs take and give."""

    folder: Path
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, tuple[str, tuple[int, ...] | None]]


def _feed_types(feeds: Arrays) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {n: (a.dtype.name, a.shape) for n, a in feeds.items()}


def _reported(path: Path) -> dict[str, float]:
    """The estimates in a compiler's report."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return {line["name"]: float(line["seconds"]) for line in csv.DictReader(file)}
    except FileNotFoundError:
        raise EngineError(f"the compiler did not write its report {path.name}", stage="compile") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"the compiler's report {path.name} cannot be read: {error}",
            stage="compile",
            hint="a CSV file with the columns name and seconds",
        ) from None
