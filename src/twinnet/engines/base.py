"""The engine contract: convert a network, load it, run it, show its tensors.

An engine is one module with one class that declares everything about it; there is no second list anywhere. Other
packages add engines by entry points.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from twinnet.engines.timing import Timed
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays, Job
from twinnet.signature import Signature
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.engines.meaning import Meaning
    from twinnet.layers import Graph
    from twinnet.network import Network
    from twinnet.onnx.export import OnnxArtefact

__all__ = [
    "Abilities",
    "Engine",
    "Part",
    "Session",
    "Standalone",
    "one_of",
    "positive",
    "read_options",
    "switch",
]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can show. `segment` is the cost of running a part of the network alone."""

    capture: bool = True
    segment: Literal["no", "cheap", "compile"] = "no"
    profile: bool = False
    optimised: bool = False
    """Whether it can write an ONNX file as its optimiser makes it (`Engine.save_optimised`)."""
    note: str = ""


@dataclass(frozen=True)
class Part:
    """A piece of a twin as a file of its own, in its engine's format.

    `feeds` are the tensors it starts from and `output` what it makes, by the file's names and in its form; `perm` gives
    the axes of the output the order in which the session shows them.
    """

    data: bytes
    suffix: str
    operators: tuple[str, ...]
    feeds: Arrays
    output: str
    perm: tuple[int, ...] | None = None


class Session(ABC):
    """A loaded twin or network. Stateless: every run starts from the same state."""

    engine: str
    version: str = ""
    precision: str = "float32"
    signature: Signature
    notes: tuple[str, ...] = ()
    overwritten: frozenset[str] = frozenset()
    """Inputs that a run has changed: whoever reads them afterwards gets something else."""
    setting: str = ""
    """An option that its spec may leave open, as the report shows it: "kernels=xnnpack"."""
    live: bool = True
    """Whether it can run new inputs; a recording cannot."""
    watched_apart: bool = False
    """Whether watched tensors come from another program than the one that ships, as a compiler makes it."""
    loose_outputs: bool = False
    """Whether it may return more or fewer outputs than the network, as a function may."""
    untold: str = ""
    """What shows that it counts in steps, if nothing tells which: floats' rounding is then no measure for it."""
    untold_hint: str = ""
    """What would tell."""
    by_hand: bool = False
    """Whether somebody else chose the names and layouts of its tensors: files named after modules, channels last."""

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, str]:
        """Maps the name of each input in a sample to its name in this session's graph."""

    @property
    @abstractmethod
    def output_tensors(self) -> tuple[str, ...]:
        """The names (`Site.tensor`) of the outputs, in order."""

    @property
    def artefact(self) -> OnnxArtefact | None:
        """The ONNX model that runs here, if any; repros are cut from it."""
        return None

    @property
    def provenance(self) -> Mapping[str, str] | None:
        """For a converted network, maps `Site.tensor` to the name of the same value in the original network.

        None means that the names are those of the network.
        """
        return None

    @property
    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """Observable sites in execution order, the network's outputs among them (role "output")."""

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run as deployed, with nothing tapped, and return the outputs by name."""

    @abstractmethod
    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        """Run once and record the tensors of the sites in `watch` (by `Site.tensor`), and the inputs."""

    def load_ahead(self, inputs: Arrays) -> None:  # noqa: B027 - most sessions load nothing for it
        """Load ahead of time what a `trace` of all sites needs."""

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        """Like `trace`, but with the tensors at some sites replaced by `patches` (by `Site.tensor`)."""
        raise EngineError(
            f"{self.engine} cannot run with a tensor replaced",
            hint="patch the other side, or put the same network on torch, onnxruntime or onnx-reference",
        )

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        """Compute one tensor (by `Site.tensor`) with only the part that makes it from the nearest of `known`.

        `known` are names of other tensors and inputs here; `values` holds their values, as a `trace` does. Raises an
        EngineError of stage "cut" if there is no such part or it cannot run alone; any other means that it failed.
        """
        raise EngineError(f"{self.engine} cannot run a part of the twin alone", stage="cut")

    def cut(self, tensor: str, known: Collection[str], values: Arrays) -> Part | None:
        """The piece that `part` runs, as a file for a repro; None if a twin of this engine is no such file."""
        return None

    @property
    def random(self) -> str:
        """The operator that draws random numbers without a seed, if the engine can tell; empty if there is none."""
        return ""

    def prepared(self, inputs: Arrays) -> Arrays:
        """The inputs as this side preprocessed them, by their names in a sample; empty if it uses them unchanged.

        Called after a `trace` of the same inputs.
        """
        return {}

    def graph(self) -> Graph | None:
        """The canonical layers of what this session runs, value names equal to `Site.tensor`; None if unknown."""
        return None

    @property
    def meaning(self) -> Meaning | None:
        """The network's own meaning, if it is not judged by its canonical layers."""
        return None

    profiled_at_once: int | None = None
    """How many runs one call of `profile` can tell apart; None for any number."""

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        """The times of each step over `repeats` runs, after some that are not counted; see `Abilities.profile`.

        Runs with timers and without take turns, so that both see the same machine.
        """
        raise EngineError(f"{self.engine} does not measure times per layer", stage="profile")

    def passes(self) -> tuple[tuple[str, float], ...]:
        """Build the twin once more and say how long each pass took, in seconds; empty if its compiler does not say."""
        return ()

    def estimates(self) -> Mapping[str, float]:
        """Seconds of single nodes or tensors as the compiler estimated them when it built the twin, by name."""
        return {}

    @property
    def size(self) -> int | None:
        """The bytes that ship: the model file, the compiled module, the parameters; None if not known."""
        return None

    def keep(self, folder: Path) -> None:  # noqa: B027 - most engines write nothing themselves
        """Put what the engine itself recorded of the last `trace` into the folder of a sample."""

    def close(self) -> None:  # noqa: B027 - most sessions hold nothing
        """Free what the session holds."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """How `repro.py` runs an ONNX model, or a `Part` in the engine's own format, under an engine, without twinnet.

    `run` takes a model (a path or its bytes), options and inputs by name, and returns the outputs by name. Its source
    and that of its `helpers` are copied into the file, so they must not import twinnet and may call only each other.
    The same function runs trials while a network is being made smaller.
    """

    run: Callable[[Any, dict[str, str], dict[str, Any]], dict[str, Any]]
    helpers: tuple[Callable[..., Any], ...] = ()
    module: str = ""
    """The module it imports; if it can be found, the engine is installed."""
    packages: tuple[str, ...] = ()
    """Packages to install besides numpy; the last is the one whose version is the engine's."""
    takes_onnx: bool = True
    """Whether it runs ONNX models; if not, only what `Session.cut` gives."""


class Engine(ABC):
    """Converts and loads networks. Instances are cheap; heavy imports belong inside the methods.

    To add an engine, write a subclass: everything twinnet needs to know about an engine is declared here.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    extra: ClassVar[str | None] = None
    """The extra of twinnet that installs it, if any."""
    abilities: ClassVar[Abilities] = Abilities()
    options: ClassVar[Mapping[str, str]] = {}
    """Keys of its specs, each with a description of its values."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions are noted in the environment of a run."""
    repeatable: ClassVar[bool] = True
    """Whether the same network, files, options and packages give the same result; code of the user's may read more."""
    takes: ClassVar[Literal["network", "onnx", ""]] = ""
    """What it takes: the network itself, an ONNX model (exported from the network where needed) whose values keep their
    names, or something else ("")."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """File suffixes that select this engine when a spec names none, in lower case: `.onnx`."""
    file_is_network: ClassVar[bool] = True
    """Whether the file of a spec is the twin itself; if not, it describes how to make the twin from the network."""
    replays: ClassVar[bool] = False
    """Whether it only shows what its file holds, for the inputs that the file was made on."""
    formats: ClassVar[tuple[str, ...]] = ()
    """Formats (`Network.format`) for which it is the default reference."""
    as_written: ClassVar[Mapping[str, str]] = {}
    """Options under which it computes the network as written, without optimising it."""

    board: ClassVar[tuple[str, ...] | None] = None
    """Packages that a board needs to run it, besides Python, the last one its own; () if not even Python; None if it
    runs here only. An engine with a runner starts all programs that are part of a run in a room of `Job.place`."""

    calmer: ClassVar[tuple[Mapping[str, str], ...]] = ()
    """Options under which it executes the same converted network with less optimisation, the mildest first."""

    settings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Options that change what comes out, with the values to compare side by side; "" leaves one out."""

    stage: ClassVar[str] = ""
    """The stage of `--stages` at which networks have its own format, if it is converted to in place of ONNX."""
    making: ClassVar[tuple[str, ...]] = ()
    """Options that say how a file of that format is made from the network, and not how it runs."""

    def writing(self, network: Network) -> Mapping[str, str]:
        """Options under which it computes this network as written; others than `as_written` if it needs them."""
        return self.as_written

    def reference(self, network: Network) -> str | None:
        """The spec that runs the network when the twin uses this engine; None: the default for its format."""
        return None

    def keeps_names(self, network: Network, options: Mapping[str, str]) -> bool:
        """Whether a twin made from the network tells where its values came from, by names or by `Session.provenance`.

        If not, its sites are paired as those of a file from elsewhere.
        """
        return True

    def standalone(self) -> Standalone | None:
        """How a part of a network runs in a repro; None if it cannot."""
        return None

    def standalone_options(self, options: Mapping[str, str], file: str | None, job: Job) -> dict[str, str]:
        """The options passed to `Standalone.run` for a spec with these options and this file."""
        return dict(options)

    def depends_on(self, options: Mapping[str, str], file: str | None) -> tuple[str, ...]:
        """What its results depend on besides the network, these options, the file and installed packages, in words."""
        return ()

    def starts(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """What these options of `standalone_options` start, load or write besides the engine itself, in words.

        A run folder from somebody else that has such options needs `--trust`.
        """
        return tuple(
            f"{self.name} with {k}={v}" for k, v in options.items() if k.startswith(("config.", "flag."))
        )

    def save_optimised(self, file: str, options: Mapping[str, str], target: Path, job: Job) -> str:
        """Write an ONNX file as optimised under these options; returns a description of what was written."""
        raise EngineError(f"{self.name} does not show what its optimiser makes", stage="optimise")

    def save_stage(self, network: Network, options: Mapping[str, str], target: Path, job: Job) -> str:
        """Write a network in the format of `stage`, made by these of its `making` options; says what was written."""
        raise EngineError(f"{self.name} has no format of its own", stage="convert")

    @abstractmethod
    def version(self) -> str:
        """Version of the installed engine; raises MissingExtra if it is not installed."""

    def version_at(self, job: Job) -> str:
        """Version of the engine where the job runs; raises an error that says what is missing there."""
        if not job.place.name:
            return self.version()
        found = job.place.versions(self.board or ())
        return found[self.board[-1]] if self.board else self.version()

    def named_sites(self, network: Network, job: Job) -> Session:
        """A session of the network in PyTorch, with the site names that this engine's twins use."""
        raise UsageError(f"engine {self.name} does not name the sites of a module")

    @abstractmethod
    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        """Open a session for `network` (converted as needed), or for `file` if given."""


def read_options(engine: Engine, options: Mapping[str, str], **kinds: Callable[[str], Any]) -> dict[str, Any]:
    """Convert options by `kinds`; the error for an unknown key or a bad value lists what is allowed."""
    values: dict[str, Any] = {}
    for key, text in options.items():
        kind = kinds.get(key.partition(".")[0] + "." if "." in key else key)
        if kind is None:
            close = difflib.get_close_matches(key, engine.options, n=1)
            shown = {k: v for k, v in engine.options.items() if k in close} or engine.options
            allowed = "; ".join(f"{k}={v}" for k, v in shown.items()) or "none"
            hint = f"did you mean {allowed}?" if close else f"options: {allowed}"
            raise UsageError(f"engine {engine.name} has no option {key!r}", hint=hint)
        try:
            values[key] = kind(text)
        except (ValueError, KeyError):
            meaning = engine.options.get(key, "")
            raise UsageError(
                f"{engine.name}: unknown value {text!r} for {key}", hint=f"{key}={meaning}"
            ) from None
    return values


def positive(text: str) -> int:
    """Read an option's value as a positive integer."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def switch(text: str) -> bool:
    """Read an option's value as yes or no."""
    return {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}[text.lower()]


def one_of(*allowed: str) -> Callable[[str], str]:
    """A reader of an option whose value is one of these words.

    >>> one_of("off", "all")("all")
    'all'
    """

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return read
