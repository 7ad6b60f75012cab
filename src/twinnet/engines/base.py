"""The engine contract: convert a network, load it, run it, show its tensors.

An engine is one module with one class. It states what it can do; nothing is discovered by crash. Adding an engine is
a file here and a line in `twinnet.engines.REGISTRY`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
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


class Engine(ABC):
    """Converts and loads. Instances are cheap; heavy imports belong inside the methods."""

    name: ClassVar[str]
    extra: ClassVar[str | None] = None
    summary: ClassVar[str] = ""
    abilities: ClassVar[Abilities] = Abilities()
    options: ClassVar[Mapping[str, str]] = {}
    file_is_network: ClassVar[bool] = True
    """Whether the file of a spec is the twin itself; else the twin is made from the network, and the file says how."""

    exports: ClassVar[bool] = True
    """Whether a network is exported on its way to this engine, in stages that can be followed."""

    def alone(self, options: Mapping[str, str], file: str | None, job: Job) -> dict[str, str]:
        """What `twinnet.engines.alone` needs to run a part of a network alone under these options."""
        return dict(options)

    @abstractmethod
    def version(self) -> str:
        """Version of the installed engine; raises MissingExtra if it is not there."""

    def reference(self, network: Network) -> str | None:
        """The spec of the engine that runs the network beside a twin of this one; None: the network's own."""
        return None

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
                f"{engine.name}: {key}={text} is not possible", hint=f"{key}={meaning}"
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
