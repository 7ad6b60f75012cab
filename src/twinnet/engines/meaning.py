"""The interface of networks that are not judged by their canonical layers.

Most networks mean what their canonical layers compute. A network with an exact meaning, such as one of lookup tables,
provides a `Meaning` (`Session.meaning`). Judging, blame, shrinking and the debugger use only this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from twinnet.job import Arrays

if TYPE_CHECKING:
    from twinnet.blame.context import Context
    from twinnet.debugger.stopped import Stopped
    from twinnet.engines.base import Session
    from twinnet.judge.verdicts import Born
    from twinnet.layers import Graph
    from twinnet.pairing import Pair
    from twinnet.result import PairResult
    from twinnet.shrink.seed import Seed

__all__ = ["Meaning", "OwnJudge", "SiteJudge"]


class SiteJudge(Protocol):
    """Judges pairs: the born test on canonical layers, or a network's exact meaning.

    `inputs` are values given from outside, `shape_values` those taken from the network's run; `segment` returns the
    tensors from which one is computed.
    """

    @property
    def inputs(self) -> Mapping[str, str]: ...

    @property
    def shape_values(self) -> frozenset[str]: ...

    def segment(self, tensor: str) -> tuple[tuple[int, ...], tuple[str, ...]]: ...

    def labels(self, tensor: str) -> tuple[str, ...]: ...

    def on(self, sample: Arrays, network_trace: Arrays, twin_trace: Arrays) -> Callable[[Pair], Born]: ...


class OwnJudge(ABC):
    """A `SiteJudge` by the network's meaning, for one twin and its pairs. `graph` holds the steps it judges by."""

    graph: Graph
    inputs: Mapping[str, str]
    shape_values: frozenset[str] = frozenset()

    @abstractmethod
    def segment(self, tensor: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The steps that make a tensor from the nearest known ones, and the names of those."""

    @abstractmethod
    def labels(self, tensor: str) -> tuple[str, ...]:
        """The steps of a segment in words."""

    @abstractmethod
    def on(self, sample: Arrays, network_trace: Arrays, twin_trace: Arrays) -> Callable[[Pair], Born]:
        """A judge of pairs on one sample."""

    def context(
        self, sample: Arrays, twin_trace: Arrays, outputs: Sequence[tuple[str, str]]
    ) -> Context | None:
        """The context for blame on one sample, with the causes that apply; None: no blame."""
        return None

    def seed(self, base: Seed, pair: Pair, sample: Arrays, twin_trace: Arrays) -> Seed | None:
        """The seed of a finding, made from `base`; None: only stored values are available."""
        return None


class Meaning(ABC):
    """The exact meaning of a network. Only `judge` is required."""

    name: ClassVar[str]
    """What such a network is judged by, as shown in `Result.judged_by`."""
    unit: ClassVar[str] = ""
    """The unit of the tensors at its sites."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Further names in the debugger, for its `trace` and `twin_trace` and for "output" and "twin_output"."""

    @abstractmethod
    def judge(self, pairs: Sequence[Pair], twin: Session) -> OwnJudge:
        """The judge for the pairs of this network and that twin."""

    def view(self, twin: Session) -> Session:
        """Wraps the twin to match this network's sites; unchanged by default."""
        return twin

    def contributors(self, pairs: Sequence[PairResult]) -> Sequence[PairResult]:
        """Pairs in which the twin differs within its budget, worst first."""
        return ()

    def pixel(
        self, stopped: Stopped, row: PairResult, index: tuple[int, ...]
    ) -> tuple[list[str], dict[str, Any]] | None:
        """How the twin computed one element of a pair, as lines and as data; None: explained by the layers."""
        return None

    def place(self, stopped: Stopped, row: PairResult) -> list[str]:
        """Further lines that describe a site, besides module and source."""
        return []
