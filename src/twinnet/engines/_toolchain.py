"""A toolchain with chosen options: which programs are started, and with which arguments."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinnet.engines._command_alone import filled, said_problem
from twinnet.engines._command_file import Description, chosen_options, find_description, read_description
from twinnet.engines._process import Task, start_program
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job

__all__ = ["Toolchain"]


class Toolchain:
    """A description with chosen options."""

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
        if file is None:
            raise UsageError("the command engine needs a description", hint="command:FILE.toml")
        path = find_description(file)
        found = read_description(path)
        return cls(found, path, chosen_options(found, path, options), job)

    def told(self) -> str:
        """What `repro.py` needs to start the same programs, as JSON."""
        found, tensors = self.found, self.found.tensors

        told = {
            "name": found.name,
            "static": found.shapes == "static",
            "opset": found.opset,
            "problem": found.problem,
            "compile": found.compile.plain() if found.compile else [],
            "artefact": found.compile.artefact if found.compile else "",
            "run": found.run.plain(),
            "files": {name: part.model_dump() for name, part in found.run.files.items()},
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
        """The toolchain's version, if the description has a command that prints it."""
        if self.found.version is None:
            return ""
        line = [filled(part, self.values) for part in self.found.version.run]
        done = self.start(line, "say its version", 60.0, None)
        shown = re.search(self.found.version.pattern, done)
        if shown:
            return shown[1] if shown.re.groups else shown[0]
        return next((t.strip()[:60] for t in done.splitlines() if t.strip()), "")

    def start(self, line: list[str], stage: str, limit: float, folder: Path | None) -> str:
        """Run one program and return everything it printed."""
        name = Path(line[0]).name
        here = self._path()
        line = [self._program(line[0], here), *line[1:]]
        more = {k: filled(v, self.values) for k, v in self.found.environment.items()}
        longest = limit if self._job.time_limit is None else min(limit, self._job.time_limit)
        task = Task(name, stage, longest, lambda log: said_problem(log, self.found.problem, str(folder)))
        done = start_program(line, task, folder=folder, environment={"PATH": here, **more})
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

    def fingerprint(self, *, running: bool = False) -> list[str]:
        """What a compiled artefact depends on: how it is compiled, and by which programs; `running`: and run."""
        step = self.found.compile
        commands = [] if step is None else list(step.run)
        parts = []
        if step is not None or running:
            compiled = [] if step is None else [step.plain(), step.artefact]
            told = [*compiled, self.values, self.found.environment]
            parts = [json.dumps(told, sort_keys=True), self.version()]
        if running:
            commands += self.found.run.run
        for command in commands:
            program = Path(self._program(filled(str(command[0]), self.values), self._path())).resolve()
            for file in (program, *self._named_files(command)):
                stat = file.stat()
                parts.append(f"{file} {stat.st_size} {stat.st_mtime_ns}")
        return parts

    def _named_files(self, command: Sequence[Any]) -> Iterator[Path]:
        """Files among the arguments, such as the script of an interpreter."""
        for part in command[1:]:
            text = str(part)
            for key, value in self.values.items():
                text = text.replace(f"{{{key}}}", value)
            if "{" not in text and os.sep in text and Path(text).is_file():
                yield Path(text)

    @property
    def precision(self) -> str:
        """The twin's number format: as described, or as set by an option."""
        stated = (o.precision.get(self.options[k]) for k, o in self.found.options.items())
        return next(filter(None, stated), self.found.precision)

    @staticmethod
    def _path() -> str:
        """PATH, with the programs of this Python first, even if its environment is not active."""
        return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
