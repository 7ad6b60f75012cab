"""The engine contract: convert a network, load it, run it, show its tensors.

An engine is one module with one class, which states everything there is to know about it: nothing is discovered by
crash, and nothing about an engine is written anywhere else. Other packages add engines by entry points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

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
    "LayerTime",
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


@dataclass(frozen=True, slots=True)
class LayerTime:
    """How long one step of an engine takes: a layer, several fused ones, or a conversion between two.

    `tensors` are the sites (by `Site.tensor`) whose layers it computes, in order; none where the engine added the
    step by itself. `kernel` is what the engine calls the code that ran.
    """

    name: str
    op: str
    seconds: float
    tensors: tuple[str, ...] = ()
    kernel: str = ""


class Session(ABC):
    """A loaded twin or network. Stateless: every run starts from the same state."""

    engine: str
    version: str = ""
    precision: str = "float32"
    signature: Signature
    notes: tuple[str, ...] = ()
    live: bool = True
    """Whether it can run inputs it has not seen; a recording cannot."""
    loose_outputs: bool = False
    """Whether it may give more or fewer outputs than the network, as a function does."""

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, str]:
        """Name of each input in a sample, to its name in this session's graph."""

    @property
    @abstractmethod
    def output_tensors(self) -> tuple[str, ...]:
        """The outputs in order, as `Site.tensor` calls them."""

    @property
    def artefact(self) -> OnnxArtefact | None:
        """The ONNX model that runs here, where one does: what a repro is cut from."""
        return None

    @property
    def provenance(self) -> Mapping[str, str] | None:
        """For a converted network: `Site.tensor` here to the name of the same value in the network it came from.

        None means that the names are the network's own.
        """
        return None

    @property
    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """Observable sites in execution order, the network's outputs among them (role "output")."""

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs by name, exactly as deployed: nothing tapped."""

    @abstractmethod
    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        """One run with the tensors of the sites in `watch` (by `Site.tensor`); inputs are part of the trace."""

    def load_ahead(self, inputs: Arrays) -> None:  # noqa: B027 - most sessions load nothing for it
        """Load now what a `trace` of all sites will need later."""

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        """Like `trace`, with other tensors (by `Site.tensor`) in place of those computed at these sites."""
        raise EngineError(
            f"{self.engine} cannot run with a tensor replaced",
            hint="patch the other side, or put the same network on torch, onnxruntime or onnx-reference",
        )

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        """One tensor (by `Site.tensor`), computed by nothing but the part that makes it from the nearest of `known`.

        `known` are other tensors and inputs, by their names here; `values` holds them, as a `trace` does. An
        EngineError of stage "cut" says that there is no such part, or no way to run it alone; any other that it
        did not run.
        """
        raise EngineError(f"{self.engine} cannot run a part of the twin alone", stage="cut")

    @property
    def random(self) -> str:
        """Which operator draws random numbers without a seed, where the engine can tell; empty if none does."""
        return ""

    def prepared(self, inputs: Arrays) -> Arrays:
        """The inputs as this side prepared them itself, by their names in a sample; none where it takes them as given.

        Asked after a `trace` of the same inputs.
        """
        return {}

    def graph(self) -> Graph | None:
        """The canonical layers of what this session runs, value names equal to `Site.tensor`; None if unknown."""
        return None

    @property
    def meaning(self) -> Meaning | None:
        """What this network means by itself, where its canonical layers are not what it is judged by."""
        return None

    def profile(self, inputs: Arrays, repeats: int = 10) -> tuple[LayerTime, ...]:
        """Time of each step in execution order, the median of `repeats` runs; for engines whose abilities say so."""
        raise EngineError(f"{self.engine} tells no time per layer", stage="profile")

    def close(self) -> None:  # noqa: B027 - most sessions hold nothing
        """Free what the session holds."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """How `repro.py` runs an ONNX model under an engine where there is no twinnet.

    `run` takes a model (a path or its bytes), options and inputs by name, and gives the outputs by name. Its source and
    that of its `helpers` go into the file as they stand, so they import nothing of twinnet and call only each other.
    What a trial runs while a network is made smaller is the same function.
    """

    run: Callable[[Any, dict[str, str], dict[str, Any]], dict[str, Any]]
    helpers: tuple[Callable[..., Any], ...] = ()
    module: str = ""
    """What Python imports for it: the engine is there if this is."""
    packages: tuple[str, ...] = ()
    """What to install for it beside numpy; the one that the engine's version is of comes last."""


class Engine(ABC):
    """Converts and loads. Instances are cheap; heavy imports belong inside the methods.

    Everything that twinnet asks about an engine is here: to add one is to write this class.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    extra: ClassVar[str | None] = None
    """The extra of twinnet that installs it, if any."""
    abilities: ClassVar[Abilities] = Abilities()
    options: ClassVar[Mapping[str, str]] = {}
    """Keys of its specs, and in words the values each may have."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions belong in the environment of a run."""
    takes: ClassVar[Literal["network", "onnx", ""]] = ""
    """What it is given: the network as it is, an ONNX model (exported from the network where needed) whose values keep
    their names, or something of its own."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Files that mean this engine when a spec names no other, in lower case: `.onnx`."""
    file_is_network: ClassVar[bool] = True
    """Whether the file of a spec is the twin itself; else the twin is made from the network, and the file says how."""
    formats: ClassVar[tuple[str, ...]] = ()
    """Networks (by `Network.format`) that it runs as the reference when nobody says otherwise."""
    as_written: ClassVar[Mapping[str, str]] = {}
    """Options under which it computes the network as written, without optimising it."""

    def reference(self, network: Network) -> str | None:
        """The spec of the network's side beside a twin of this engine; None: that of the network's format."""
        return None

    def standalone(self) -> Standalone | None:
        """How a part of a network runs in a repro; None if it cannot."""
        return None

    def standalone_options(self, options: Mapping[str, str], file: str | None, job: Job) -> dict[str, str]:
        """What `Standalone.run` is to be told for a spec with these options and this file."""
        return dict(options)

    def save_optimised(self, file: str, options: Mapping[str, str], target: Path, job: Job) -> str:
        """Write an ONNX file as it is optimised under these options; the words for what was written."""
        raise EngineError(f"{self.name} does not show what its optimiser makes", stage="optimise")

    @abstractmethod
    def version(self) -> str:
        """Version of the installed engine; raises MissingExtra if it is not there."""

    def named_sites(self, network: Network, job: Job) -> Session:
        """The network itself in PyTorch, its sites under the names that this engine's twins use."""
        raise UsageError(f"engine {self.name} has no names of its own for the sites of a module")

    @abstractmethod
    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        """A session for `network` (converted as needed), or for `file` where one is given."""


def read_options(engine: Engine, options: Mapping[str, str], **kinds: Callable[[str], Any]) -> dict[str, Any]:
    """Options converted by `kinds`; an unknown key or a bad value is an error that lists what is allowed."""
    values: dict[str, Any] = {}
    for key, text in options.items():
        kind = kinds.get(key.partition(".")[0] + "." if "." in key else key)
        if kind is None:
            allowed = "; ".join(f"{k}={v}" for k, v in engine.options.items()) or "none"
            raise UsageError(f"engine {engine.name} has no option {key!r}", hint=f"options: {allowed}")
        try:
            values[key] = kind(text)
        except (ValueError, KeyError):
            meaning = engine.options.get(key, "")
            raise UsageError(
                f"{engine.name}: unknown value {text!r} for {key}", hint=f"{key}={meaning}"
            ) from None
    return values


def positive(text: str) -> int:
    """A whole number above 0, as an option's value."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def switch(text: str) -> bool:
    """Yes or no, as an option's value."""
    return {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}[text.lower()]


def one_of(*allowed: str) -> Callable[[str], str]:
    """A word of a list, as an option's value.

    >>> one_of("off", "all")("all")
    'all'
    """

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return read
