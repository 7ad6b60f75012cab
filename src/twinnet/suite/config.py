"""The settings of a suite: `[tool.twinnet]` of pyproject.toml, changed by the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.files import checked, read_toml
from twinnet.time_limit import TimeLimits

__all__ = ["Config", "EngineSet", "ModelSettings", "read_config"]

REPORT = "runs/suite"
_Seconds = float | dict[str, float] | None
"""A time limit as it is written: seconds for each step, or seconds by step."""


@dataclass(frozen=True)
class EngineSet:
    """An engine with one set of options, for the models whose name fits.

    `name` is the name of the option set in the names of cases, `chip` and `hw_type` what fills `{chip}` and `{hw_type}`
    in the spec. With `layers` false only full models run. `time_limit` is for this engine only: seconds for each step,
    or by step.
    """

    spec: str
    name: str = ""
    models: str = "*"
    layers: bool = True
    chip: str = ""
    hw_type: str = ""
    time_limit: _Seconds = None

    @property
    def engine(self) -> str:
        """The name of the engine.

        >>> EngineSet("onnxruntime?opt=off").engine
        'onnxruntime'
        """
        return self.spec.partition("@ssh://")[0].partition(":")[0].partition("?")[0]

    @property
    def options(self) -> str:
        """The name of the option set: as stated, else made from the options.

        >>> EngineSet("iree").options, EngineSet("onnxruntime?opt=off").options
        ('default', 'opt-off')
        """
        from twinnet.engines.spec import file_name

        query = self.spec.partition("@ssh://")[0].partition(":")[0].partition("?")[2]
        made = self.name or file_name(query, 40).strip("-.") or "default"
        return "-".join(filter(None, (made, self.chip, self.hw_type)))


@dataclass(frozen=True)
class ModelSettings:
    """What is stated about the models whose name fits a pattern."""

    inputs: str | list[str] | None = None
    shape: dict[str, str] = field(default_factory=dict)
    preprocess: str | None = None
    samples: int | None = None
    tolerance: str | None = None
    layers: bool | None = None
    factory: str | None = None

    def over(self, before: ModelSettings) -> ModelSettings:
        """These settings, and those of an earlier pattern where nothing is stated."""
        stated = {k: v for k, v in vars(self).items() if v not in (None, {})}
        return ModelSettings(**{**vars(before), **stated})


@dataclass(frozen=True)
class _Engine:
    spec: str
    name: str = ""
    models: str = "*"
    layers: bool = True
    time_limit: _Seconds = None


@dataclass(frozen=True)
class _Table:
    """`[tool.twinnet]` as it is written."""

    models: list[str] = field(default_factory=lambda: ["models"])
    engines: list[str | _Engine] = field(default_factory=lambda: ["onnxruntime"])
    chips: list[str] = field(default_factory=list)
    hw_type: str = ""
    model: dict[str, ModelSettings] = field(default_factory=dict)
    expected: str = "expected-failures.txt"
    report: str = REPORT
    tolerance: str | None = None
    seed: int = 0
    threads: int | None = None
    time_limit: _Seconds = None
    max_layers: int | None = None
    trust: bool = False
    store: str | None = None


@dataclass(frozen=True)
class Config:
    """One suite: where its models are, which engines run them, and how."""

    root: Path
    models: tuple[Path, ...] = ()
    engines: tuple[EngineSet, ...] = ()
    settings: Mapping[str, ModelSettings] = field(default_factory=dict)
    expected: Path = Path("expected-failures.txt")
    report: Path = Path(REPORT)
    tolerance: str | None = None
    seed: int = 0
    threads: int | None = None
    time_limit: _Seconds = None
    max_layers: int | None = None
    trust: bool = False
    random: bool = False
    debug_ir: Path | None = None
    runtime_profile: Path | None = None
    compile_profile: Path | None = None
    place: str | None = None
    store: str | None = None

    @property
    def board(self) -> str | None:
        """The board on which twins run, if they do."""
        return self.place if self.place is not None and self.place.startswith("ssh://") else None

    def limits_of(self, spec: str = "") -> TimeLimits:
        """The time limits of an engine: its own, and those of the suite where it has none."""
        own = next((e.time_limit for e in self.engines if e.spec == spec), None)
        return TimeLimits.of(own).over(TimeLimits.of(self.time_limit))

    def of_model(self, name: str) -> ModelSettings:
        """What is stated about a model; of several patterns that fit, later ones win."""
        found = ModelSettings()
        for pattern, settings in self.settings.items():
            if fnmatchcase(name, pattern):
                found = settings.over(found)
        return found


def read_config(
    root: Path, *, engines: str = "", chips: str = "", hw_type: str = "", models: Iterable[str] = ()
) -> Config:
    """The suite of a project folder. What is given here replaces what the file states."""
    from twinnet.engines.spec import parse_spec

    data: Any = {}
    path = root / "pyproject.toml"
    if path.exists():
        tools = read_toml(path, "project file").get("tool", {})
        data = tools.get("twinnet", {}) if isinstance(tools, dict) else {}
    if not isinstance(data, dict):
        raise UsageError(f"{path}: tool.twinnet is not a table")
    known = set(_Table.__dataclass_fields__)
    for key in data:
        if key.replace("-", "_") not in known:
            allowed = ", ".join(sorted(k.replace("_", "-") for k in known))
            raise UsageError(f"{path}: [tool.twinnet] has no setting {key!r}", hint=f"settings: {allowed}")
    table = checked(_Table, _with_underscores(data), f"{path}, [tool.twinnet]")
    for name, least in (("seed", 0), ("threads", 1), ("max_layers", 0)):
        value = getattr(table, name)
        if value is not None and value < least:
            raise UsageError(f"{path}: {name.replace('_', '-')} = {value} is less than {least}")
    stated = [_Engine(e) if isinstance(e, str) else e for e in table.engines]
    for limit in (table.time_limit, *(engine.time_limit for engine in stated)):
        TimeLimits.of(limit)
    chosen = _chosen(stated, engines)
    chip_names = [c.strip() for c in chips.split(",") if c.strip()] or table.chips
    sets = tuple(s for e in chosen for s in _with_chips(e, chip_names, hw_type or table.hw_type))
    for one in sets:
        parse_spec(one.spec)  # a name that is not an engine's is one mistake, not one ERROR for each layer
    folders = tuple(root / m for m in (tuple(models) or table.models))
    return Config(
        root=root,
        models=folders,
        engines=sets,
        settings=table.model,
        expected=root / table.expected,
        report=Path(table.report),
        tolerance=None if table.tolerance is None else str(root / table.tolerance),
        seed=table.seed,
        threads=table.threads,
        time_limit=table.time_limit,
        max_layers=table.max_layers,
        trust=table.trust,
        store=table.store,
    )


def _with_underscores(data: dict[str, Any]) -> dict[str, Any]:
    """The settings under the names of fields, those of engines and models too; names of models stay."""

    def renamed(table: Any) -> Any:
        return {k.replace("-", "_"): v for k, v in table.items()} if isinstance(table, dict) else table

    found = renamed(data)
    if isinstance(found.get("engines"), list):
        found["engines"] = [renamed(engine) for engine in found["engines"]]
    if isinstance(found.get("model"), dict):
        found["model"] = {name: renamed(table) for name, table in found["model"].items()}
    return found


def _chosen(stated: list[_Engine], asked: str) -> list[_Engine]:
    """The engines of `--twin-engines`: those of the file that fit a name or pattern, or specs of their own."""
    if not asked:
        return stated
    from twinnet.engines.spec import parse_specs

    found: list[_Engine] = []
    for word in asked.split(","):
        word = word.strip()
        fitting = [e for e in stated if fnmatchcase(EngineSet(e.spec).engine, word) or e.spec == word]
        if fitting:
            found += [e for e in fitting if e not in found]
        elif word:
            found += [_Engine(str(spec)) for spec in parse_specs(word)]
    return found


def _with_chips(engine: _Engine, chips: list[str], hw_type: str) -> list[EngineSet]:
    """One set for each chip, if the spec speaks of a chip."""
    if "{chip}" in engine.spec and not chips:
        raise UsageError(f"the engine {engine.spec} needs a chip", hint="chips = [...], or --twin-chips")
    if "{hw_type}" in engine.spec and not hw_type:
        raise UsageError(f"the engine {engine.spec} needs a hardware type", hint="--twin-hw-type")
    used = chips if "{chip}" in engine.spec else [""]
    kind = hw_type if "{hw_type}" in engine.spec else ""
    return [
        EngineSet(
            engine.spec.replace("{chip}", chip).replace("{hw_type}", kind),
            engine.name,
            engine.models,
            engine.layers,
            chip,
            kind,
            engine.time_limit,
        )
        for chip in used
    ]
