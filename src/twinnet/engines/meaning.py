"""Networks with a meaning of their own: what they are judged by, explained with and shown as, in one interface.

Most networks mean what their canonical layers compute. One that knows better, a network of lookup tables for instance,
hands out a `Meaning` (`Session.meaning`). The rooms that judge, blame, shrink and debug ask it and know nothing else of
such networks.
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
    """What judges pairs: the born test on canonical layers, or a network's own exact meaning.

    `inputs` are values given from outside, `shape_values` those taken from the network's run; `segment` tells from
    which tensors one is computed.
    """

    @property
    def inputs(self) -> Mapping[str, str]: ...

    @property
    def shape_values(self) -> frozenset[str]: ...

    def segment(self, tensor: str) -> tuple[tuple[int, ...], tuple[str, ...]]: ...

    def labels(self, tensor: str) -> tuple[str, ...]: ...

    def on(self, sample: Arrays, network_trace: Arrays, twin_trace: Arrays) -> Callable[[Pair], Born]: ...


class OwnJudge(ABC):
    """A `SiteJudge` by a network's own meaning, for one twin and its pairs. `graph` holds the steps it judges by."""

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
        """What blame may look at on one sample, with the causes that apply; None: nothing."""
        return None

    def seed(self, base: Seed, pair: Pair, sample: Arrays, twin_trace: Arrays) -> Seed | None:
        """A seed of a finding, made of `base`; None: stored values are all there is."""
        return None


class Meaning(ABC):
    """What a network with a meaning of its own brings. Only the judge is a must."""

    name: ClassVar[str]
    """By what such a network is judged; `Result.judged_by` says it."""
    unit: ClassVar[str] = ""
    """The unit of the tensors at its sites."""

    @abstractmethod
    def judge(self, pairs: Sequence[Pair], twin: Session) -> OwnJudge:
        """Who judges the pairs of this network and that twin."""

    def view(self, twin: Session) -> Session:
        """Wraps the twin to match this network's sites; unchanged by default."""
        return twin

    def contributors(self, pairs: Sequence[PairResult]) -> Sequence[PairResult]:
        """Pairs in which the twin differs within what it may, worst first."""
        return ()

    def pixel(
        self, stopped: Stopped, row: PairResult, index: tuple[int, ...]
    ) -> tuple[list[str], dict[str, Any]] | None:
        """How the twin came to one element of a pair, as lines and as data; None: the layers tell."""
        return None

    def place(self, stopped: Stopped, row: PairResult) -> list[str]:
        """What stands at a site, beside module and source, as lines."""
        return []
