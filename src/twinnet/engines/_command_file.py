"""Read and check the TOML file that describes a toolchain; errors name line and key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from twinnet.errors import UsageError
from twinnet.files import read_toml

__all__ = ["Description", "find_description", "read_description", "ready_files"]

Form = Literal["npy", "raw", "safetensors"]
Precision = Literal["float64", "float32", "tf32", "float16", "bfloat16"]
_READY = Path(__file__).with_name("vendors")
_PLACES = (
    "model",
    "graph",
    "artefact",
    "folder",
    "inputs",
    "inputs[NAME]",
    "outputs",
    "threads",
    "here",
    "python",
)
_ITEM = frozenset(("name", "plain", "index", "dtype", "shape"))


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


Expression = Annotated[str, AfterValidator(_expression)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Each(_Strict):
    """An argument for each input or output: repeated, or joined into one."""

    each: Literal["inputs", "outputs"]
    text: str
    join: str | None = None
    before: str = ""


Argument = str | Each
Command = list[Argument]


class Step(_Strict):
    """One or more programs, one after the other."""

    run: list[Command]
    time_limit: float = Field(default=600.0, gt=0)

    @field_validator("run", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        # One command may be written without the outer list.
        one = isinstance(value, list) and value and not isinstance(value[0], list)
        return [value] if one else value

    def plain(self, extra: Sequence[Argument] = ()) -> list[list[Any]]:
        """The commands as texts and tables; `extra` arguments go to the end of the last."""
        commands = [*self.run[:-1], [*self.run[-1], *extra]]
        return [[p if isinstance(p, str) else p.model_dump() for p in command] for command in commands]

    @model_validator(mode="after")
    def _something(self) -> Step:
        if not self.run or any(not c or not isinstance(c[0], str) for c in self.run):
            raise ValueError(
                "run must start with a program: give a list of arguments, or a list of lists of arguments"
            )
        return self


class Compile(Step):
    """From {model} to {artefact}; `artefact` is the file name of the latter.

    `report` is the name of a CSV file that the compiler writes into {folder}, with the columns `name` (a node or
    tensor) and `seconds`: its own estimate of the time of each.
    """

    artefact: str = "artefact"
    report: str = ""

    @field_validator("report")
    @classmethod
    def _inside(cls, value: str) -> str:
        if "/" in value or value in (".", ".."):
            raise ValueError("report is a file name, without a folder")
        return value


class Run(Step):
    """From {inputs} to {outputs}.

    `watch` are arguments added when inner tensors are asked for; `files` are written into {folder} first.
    """

    watch: list[Argument] = []
    files: dict[str, Each] = {}

    @field_validator("files")
    @classmethod
    def _inside(cls, value: dict[str, Each]) -> dict[str, Each]:
        if any("/" in name or name in (".", "..") for name in value):
            raise ValueError("a file of [run.files] is a name, without a folder")
        return value


class Tensors(_Strict):
    """Formats of tensors. `raw_dtype` is the type of all raw outputs, if the program always writes one."""

    inputs: Form = "npy"
    outputs: Form = "npy"
    input_files: str = ""
    output_files: str = ""
    raw_dtype: str = ""


class Intermediates(_Strict):
    """Where inner tensors appear: as further outputs of the model, in files the program writes, or nowhere."""

    how: Literal["outputs", "files", "none"] = "none"
    files: str = ""

    @model_validator(mode="after")
    def _named(self) -> Intermediates:
        if (self.how == "files") != bool(self.files):
            raise ValueError('files = "..." goes with how = "files", and only with it')
        return self


class Version(_Strict):
    """A command that prints the toolchain's version, and the expression that finds it."""

    run: list[str]
    pattern: Expression = r"\d+(?:\.\d+)+\S*"


class Option(_Strict):
    """An option of the toolchain, such as a chip; without `values` it takes any value.

    `precision` gives the number format of the twin for some of its values.
    """

    default: str = ""
    values: list[str] = []
    about: str = ""
    precision: dict[str, Precision] = {}

    @model_validator(mode="after")
    def _allowed(self) -> Option:
        if self.values and self.default not in self.values:
            raise ValueError(f"default = {self.default!r} is not one of values")
        return self


class Description(_Strict):
    """A toolchain. `problem` is a regular expression that finds the error message in a log."""

    name: str = Field(pattern=r"^[\w.+-]+$")
    about: str = ""
    precision: Precision = "float32"
    shapes: Literal["static", "as-written"] = "static"
    opset: int = Field(default=0, ge=0)
    problem: Expression = ""
    version: Version | None = None
    compile: Compile | None = None
    run: Run
    tensors: Tensors = Tensors()
    intermediates: Intermediates = Intermediates()
    options: dict[str, Option] = {}
    environment: dict[str, str] = {}

    def texts(self) -> Iterator[tuple[str, str, frozenset[str]]]:
        """Every text with placeholders: its key, the text, and the placeholders it may hold."""
        general = frozenset((*_PLACES, *(f"option.{name}" for name in self.options)))
        each = general | _ITEM | {"file"}
        commands = [("compile.run", c) for c in (self.compile.run if self.compile else ())]
        commands += [("run.run", c) for c in self.run.run] + [("run.watch", self.run.watch)]
        for where, command in commands:
            for part in command:
                yield (where, part, general) if isinstance(part, str) else (where, part.text, each)
        for name, part in self.run.files.items():
            yield f"run.files.{name}", part.text, each
        for key, value in self.environment.items():
            yield f"environment.{key}", value, general
        yield "tensors.input_files", self.tensors.input_files, _ITEM
        yield "tensors.output_files", self.tensors.output_files, _ITEM
        yield "intermediates.files", self.intermediates.files, _ITEM


def ready_files() -> list[str]:
    """Descriptions that come with the package.

    >>> "torq" in ready_files()
    True
    """
    return sorted(p.stem for p in _READY.glob("*.toml"))


def find_description(name: str) -> Path:
    """The file of that path, or the ready one of that name."""
    path = Path(name)
    if path.is_file():
        return path
    ready = _READY / f"{name}.toml"
    if ready.is_file():
        return ready
    raise UsageError(
        f"no such file: {name}", hint=f"command:FILE.toml, or a ready one: {', '.join(ready_files())}"
    )


def read_description(path: Path) -> Description:
    """Read and check a description; errors name line and key, and what is allowed."""
    table = read_toml(path, "TOML file")
    text = path.read_text(encoding="utf-8")
    try:
        found = Description.model_validate(table)
    except ValidationError as error:
        raise _complaint(path, text, error) from None
    _check_placeholders(path, text, found)
    return found


def _complaint(path: Path, text: str, error: ValidationError) -> UsageError:
    first = error.errors()[0]
    keys = [str(part) for part in first["loc"] if isinstance(part, str) and not part.startswith("function-")]
    keys = [key for key in keys if key not in ("str", "Each", "list[union[str,Each]]")]
    place = ".".join(keys)
    kind, context = first["type"], first.get("ctx", {})
    hint = None
    if kind == "extra_forbidden":
        said = f"unknown key {place!r}"
        hint = f"allowed: {', '.join(_allowed(keys[:-1]))}"
    elif kind == "missing":
        said = f"{place!r} is missing"
    elif kind == "literal_error":
        said = f"{place} = {first['input']!r} is not valid"
        hint = f"one of: {context.get('expected', '')}"
    else:
        said = f"{place}: {first['msg'].removeprefix('Value error, ')}"
    return UsageError(f"{path}{_line(text, keys)}: {said}", hint=hint)


def _allowed(keys: Sequence[str]) -> list[str]:
    """The keys of the table at this place."""
    at: Any = Description
    for key in keys:
        if at is Description and key == "options":
            at = {"": Option}
            continue
        if isinstance(at, dict):
            at = Option
            continue
        names = {"compile": Compile, "run": Run, "tensors": Tensors, "intermediates": Intermediates}
        at = names.get(key) or (Version if key == "version" else Each)
    return [] if isinstance(at, dict) else sorted(at.model_fields)


def _line(text: str, keys: Sequence[str]) -> str:
    """` line N` of the key, if tables and keys are on separate lines."""
    table: list[str] = []
    best = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[+\s*([\w.\"-]+)\s*\]", line)
        if head:
            table = head[1].replace('"', "").split(".")
            if table == list(keys[: len(table)]):
                best = f" line {number}"
            continue
        entry = re.match(r"\s*([\w.\"-]+)\s*=", line)
        if entry:
            place = [*table, *entry[1].replace('"', "").split(".")]
            if place == list(keys[: len(place)]):
                best = f" line {number}"
                if len(place) == len(keys):
                    return best
    return best


def _check_placeholders(path: Path, text: str, found: Description) -> None:
    for where, words, allowed in found.texts():
        for name in re.findall(r"\{([^{}]+)\}", words.replace("{{", "").replace("}}", "")):
            place = f"{path}{_line(text, where.split('.'))}: {where}"
            if name not in allowed and not ("inputs" in allowed and re.fullmatch(r"inputs\[[^\]]+\]", name)):
                raise UsageError(
                    f"{place} has the unknown placeholder {{{name}}}",
                    hint=f"allowed: {', '.join(sorted(allowed))}",
                )
            if name == "artefact" and found.compile is None:
                raise UsageError(
                    f"{place} names {{artefact}}, but there is no [compile]",
                    hint="without a compile step the program is given {model}",
                )


def chosen_options(found: Description, path: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Every option with its value: given, else default."""
    for key, value in given.items():
        option = found.options.get(key)
        if option is None:
            known = "; ".join(
                f"{k}={'|'.join(o.values) or o.about or '...'}" for k, o in found.options.items()
            )
            raise UsageError(f"{path} has no option {key!r}", hint=f"options: {known or 'none'}")
        if option.values and value not in option.values:
            raise UsageError(
                f"{found.name}: unknown value {value!r} for {key}", hint=f"one of: {', '.join(option.values)}"
            )
    return {key: given.get(key, option.default) for key, option in found.options.items()}
