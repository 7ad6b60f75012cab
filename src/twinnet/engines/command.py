"""Any toolchain as an engine: a TOML file says which programs compile and run a network, and where tensors are."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.cache import cached_folder, content_key
from twinnet.engines._onnx_session import OnnxSession
from twinnet.engines.base import Abilities, Arrays, Engine, Job, Session
from twinnet.errors import EngineError, MissingExtra, UsageError
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.engines._command_file import Description
    from twinnet.engines._compiled_model import Prepared
    from twinnet.engines._export import OnnxArtefact
    from twinnet.network import Network

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
    file_is_network: ClassVar[bool] = False

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
        from twinnet.engines._export import onnx_artefact

        tools = Toolchain.read(file, options, job)
        return CommandSession(onnx_artefact(network, None, job), tools, job)

    def alone(self, options: Mapping[str, str], file: str | None, job: Job) -> dict[str, str]:
        return {"description": Toolchain.read(file, options, job).told()}


class Toolchain:
    """A description with its options chosen: what is started, in words and as lists of arguments."""

    def __init__(self, found: Description, path: Path, options: Mapping[str, str], job: Job) -> None:
        self.found = found
        self.path = path
        self.options = dict(options)
        self._job = job
        self.values = {f"option.{k}": v for k, v in options.items()}
        self.values |= {
            "threads": str(job.threads or os.cpu_count() or 1),
            "here": str(path.resolve().parent),
            "python": sys.executable,
        }

    @classmethod
    def read(cls, file: str | None, options: Mapping[str, str], job: Job) -> Toolchain:
        """From the file that a spec names."""
        from twinnet.engines._command_file import chosen_options, find_description, read_description

        if file is None:
            raise UsageError("the command engine needs a description", hint="command:FILE.toml")
        path = find_description(file)
        found = read_description(path)
        return cls(found, path, chosen_options(found, path, options), job)

    def told(self) -> str:
        """Everything that a `repro.py` needs to start the same programs."""
        found, tensors = self.found, self.found.tensors

        def plain(step: Any) -> list[Any]:
            return (
                [[p if isinstance(p, str) else p.model_dump() for p in c] for c in step.run] if step else []
            )

        told = {
            "name": found.name,
            "static": found.shapes == "static",
            "opset": found.opset,
            "problem": found.problem,
            "compile": plain(found.compile),
            "artefact": found.compile.artefact if found.compile else "",
            "run": plain(found.run),
            "time_limit": max(found.run.time_limit, found.compile.time_limit if found.compile else 0.0),
            "input_form": tensors.inputs,
            "output_form": tensors.outputs,
            "input_files": tensors.input_files,
            "output_files": tensors.output_files,
            "raw_dtype": tensors.raw_dtype,
            "environment": found.environment,
            "values": {k: v for k, v in self.values.items() if k != "python"},
        }
        return json.dumps(told)

    # -- starting programs ---------------------------------------------------------------------------------------

    def version(self) -> str:
        """What the toolchain says of itself, where the description has a command for that."""
        if self.found.version is None:
            return ""
        line = [_text(part, self.values) for part in self.found.version.run]
        done = self.start(line, "say its version", 60.0, None)
        shown = re.search(self.found.version.pattern, done)
        if shown:
            return shown[1] if shown.re.groups else shown[0]
        return next((t.strip()[:60] for t in done.splitlines() if t.strip()), "")

    def start(self, line: list[str], stage: str, limit: float, folder: Path | None) -> str:
        """Run one program; everything it printed."""
        from twinnet.engines._command_alone import said_problem
        from twinnet.engines._process import start_program

        name = Path(line[0]).name
        here = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        line = [self._program(line[0], here), *line[1:]]
        more = {k: _text(v, self.values) for k, v in self.found.environment.items()}
        longest = limit if self._job.time_limit is None else min(limit, self._job.time_limit)
        done = start_program(
            line,
            name=name,
            stage=stage,
            limit=longest,
            folder=folder,
            environment={"PATH": here, **more},
            said=lambda log: said_problem(log, self.found.problem, str(folder)),
        )
        return f"{done.out}\n{done.log}"

    def _program(self, name: str, path: str) -> str:
        found = shutil.which(name, path=path)
        if found is None and os.sep in name and not Path(name).is_absolute():
            found = shutil.which(str(self.path.resolve().parent / name))
        if found is None:
            raise EngineError(
                f"{self.found.name}: the program {name!r} was not found",
                stage="start the toolchain",
                hint=f"install it, put it on PATH, or correct {self.path}",
            )
        return found

    def fingerprint(self) -> list[str]:
        """What decides whether a compiled artefact is still good: the description, its options, the programs."""
        here = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        parts = [self.told(), self.version()]
        for command in self.found.compile.run if self.found.compile else ():
            program = Path(self._program(_text(str(command[0]), self.values), here)).resolve()
            stat = program.stat()
            parts.append(f"{program} {stat.st_size} {stat.st_mtime_ns}")
        return parts


def _text(text: str, values: Mapping[str, str]) -> str:
    from twinnet.engines._command_alone import filled

    return filled(text, dict(values))


class CommandSession(OnnxSession):
    """One network in one toolchain. Artefacts are compiled once and kept in the cache."""

    engine = "command"

    def __init__(self, artefact: OnnxArtefact, tools: Toolchain, job: Job) -> None:
        super().__init__(artefact)
        self._tools = tools
        self._job = job
        self.version = tools.version()
        self.precision = tools.found.precision
        self._static = tools.found.shapes == "static"
        self._shapes: dict[tuple[object, ...], Prepared] = {}
        self._built: dict[tuple[tuple[object, ...], frozenset[str]], _Built] = {}
        first = self._prepared(artefact.feeds(job.inputs))
        if first.converted_from:
            self.notes = (
                f"{tools.found.name}: the ONNX model was converted from opset {first.converted_from} "
                f"to {tools.found.opset} first",
            )
        self._build(artefact.feeds(job.inputs), frozenset())

    # -- compiling -----------------------------------------------------------------------------------------------

    def _shape(self, feeds: Arrays) -> tuple[object, ...]:
        return tuple((n, feeds[n].shape) for n in sorted(feeds)) if self._static else ()

    def _prepared(self, feeds: Arrays) -> Prepared:
        from twinnet.engines._compiled_model import prepare

        key, opset = self._shape(feeds), self._tools.found.opset
        if key not in self._shapes:
            whole = self._artefact.network.complete()
            self._shapes[key] = prepare(whole, feeds, static=self._static, oldest=opset, opset=opset)
        return self._shapes[key]

    def _build(self, feeds: Arrays, watch: frozenset[str]) -> _Built:
        """The network compiled, with at least these tensors as outputs; without any as it is deployed."""
        shape = self._shape(feeds)
        for (other, taps), built in self._built.items():
            if other == shape and (watch <= taps if watch else not taps):
                return built
        prepared = self._prepared(feeds)
        model, outputs = prepared.tapped(watch)
        data = model.SerializeToString(deterministic=True)
        key = content_key("command", *self._tools.fingerprint(), data)
        folder = cached_folder(key, lambda made: self._compile(data, made))
        built = _Built(folder, prepared.inputs, outputs, _types(prepared, outputs))
        self._built[shape, watch] = built
        return built

    def _compile(self, data: bytes, folder: Path) -> None:
        from twinnet.engines._command_alone import command_lines

        (folder / "network.onnx").write_bytes(data)
        step = self._tools.found.compile
        if step is None:
            return
        target = folder / step.artefact
        values = {
            **self._tools.values,
            "model": str(folder / "network.onnx"),
            "graph": self._artefact.model.graph.name,
            "artefact": str(target),
            "folder": str(folder),
        }
        inputs = [
            {
                "name": i.name,
                "plain": re.sub(r"[^A-Za-z0-9_]", "_", i.name),
                "dtype": i.dtype,
                "shape": "x".join(map(str, self._feed_shape(i.name))),
            }
            for i in self.signature.inputs
        ]
        commands = [[p if isinstance(p, str) else p.model_dump() for p in c] for c in step.run]
        with self._job.step("compile"):
            for line in command_lines(commands, values, inputs, []):
                self._tools.start(line, "compile the network", step.time_limit, folder)
        if not target.exists():
            raise EngineError(
                f"{self._tools.found.name}: the compile step ended well, but wrote no {step.artefact}",
                stage="compile the network",
                hint=f"it has to write {{artefact}}: see [compile] in {self._tools.path}",
            )

    def _feed_shape(self, name: str) -> tuple[int, ...]:
        feeds = self._artefact.feeds(self._job.inputs)
        return feeds[name].shape if name in feeds else ()

    # -- running -------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[Site, ...]:
        prepared = self._prepared(self._artefact.feeds(self._job.inputs))
        outputs = set(prepared.outputs)
        if self._tools.found.intermediates.how == "none":
            return self._sites_of(n for n in self._cut.observable if n in outputs)
        return self._sites_of(n for n in self._cut.observable if n in prepared.taps or n in outputs)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        feeds = self._artefact.feeds(inputs)
        return self._start(self._build(feeds, frozenset()), feeds, ())

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        feeds = self._artefact.feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        inner = frozenset(watch) - frozenset(self._cut.outputs)
        how = self._tools.found.intermediates.how
        built = self._build(feeds, inner if how == "outputs" else frozenset())
        found = self._start(built, feeds, sorted(inner) if how == "files" else ())
        for name in self._cut.observable:
            if name in found and (name in inner or name in self._cut.outputs):
                builder.add(name, found[name])
        return builder.done()

    def _start(self, built: _Built, feeds: Arrays, watched: Collection[str]) -> dict[str, np.ndarray]:
        """Run the programs once, in a folder that goes afterwards; the tensors they wrote."""
        from twinnet.engines._command_alone import command_lines, read_results, tensor_files, write_feeds

        found, form = self._tools.found, self._tools.found.tensors
        with tempfile.TemporaryDirectory(prefix="twinnet-command-") as scratch, self._job.step("run"):
            home = Path(scratch)
            for part in ("inputs", "outputs"):
                (home / part).mkdir()
            types = {n: (feeds[n].dtype.name, feeds[n].shape) for n in built.inputs}
            ins = tensor_files(list(built.inputs), types, form.inputs, str(home / "inputs"), form.input_files)
            outs = tensor_files(
                list(built.outputs), dict(built.types), form.outputs, str(home / "outputs"), form.output_files
            )
            write_feeds(ins, dict(feeds), form.inputs)
            model = built.folder / "network.onnx"
            artefact = built.folder / found.compile.artefact if found.compile else model
            values = {
                **self._tools.values,
                "model": str(model),
                "graph": self._artefact.model.graph.name,
                "artefact": str(artefact),
                "folder": str(home),
                "inputs": str(home / "inputs"),
                "outputs": str(home / "outputs"),
                **{f"inputs[{f['name']}]": f["file"] for f in ins},
            }
            extra = found.run.watch if watched else []
            commands: list[list[Any]] = [
                [p if isinstance(p, str) else p.model_dump() for p in c] for c in found.run.run
            ]
            commands[-1] += [p if isinstance(p, str) else p.model_dump() for p in extra]
            log = ""
            try:
                for line in command_lines(commands, values, ins, outs):
                    log += self._tools.start(line, "run the network", found.run.time_limit, home)
                results = read_results(outs, dict(built.types), form.outputs, form.raw_dtype)
                if watched:
                    known = _types(self._prepared(feeds), watched)
                    inner = tensor_files(
                        list(watched), known, form.outputs, str(home / "outputs"), found.intermediates.files
                    )
                    results |= read_results(inner, known, form.outputs, form.raw_dtype)
            except KeyError as error:
                raise UsageError(
                    f"{self._tools.path}: the network has no {error.args[0]}",
                    hint=f"its inputs: {', '.join(built.inputs)}",
                ) from None
            except (ValueError, OSError) as error:
                raise EngineError(
                    f"{found.name}: what it wrote cannot be read: {error}", stage="run the network", log=log
                ) from None
            missing = [n for n in built.outputs if n not in results]
            if missing:
                from twinnet.engines._process import last_words

                there = sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())[:12]
                raise EngineError(
                    f"{found.name}: the run ended well, but wrote no file for the output {missing[0]}",
                    stage="run the network",
                    log=last_words(log) or "nothing was printed",
                    hint=f"looked for {outs[0]['file'].removeprefix(scratch + os.sep)}; there are: {', '.join(there)}",
                )
        return results


class _Built:
    """A compiled network: its folder in the cache, and what its programs take and give."""

    def __init__(
        self,
        folder: Path,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        types: Mapping[str, tuple[str, tuple[int, ...] | None]],
    ) -> None:
        self.folder = folder
        self.inputs = inputs
        self.outputs = outputs
        self.types = types


def _types(prepared: Prepared, names: Collection[str]) -> dict[str, tuple[str, tuple[int, ...] | None]]:
    from twinnet.engines._compiled_model import tensor_types

    model, _ = prepared.tapped(names)
    return {n: t for n, t in tensor_types(model).items() if n in names}
