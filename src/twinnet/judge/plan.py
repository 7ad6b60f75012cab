"""The plan of a check: which sites are compared, and by which rule. Made once, after the first runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twinnet.engines.base import Session
from twinnet.engines.meaning import OwnJudge, SiteJudge
from twinnet.judge.tolerance import Tolerances
from twinnet.layers.graph import Graph
from twinnet.pairing import Pair, Pairing
from twinnet.precision import UNITS, coarser, unit_of
from twinnet.result import Guard

__all__ = ["Observed", "OutputPair", "Plan", "Units", "align_outputs", "with_judge"]


@dataclass(frozen=True, slots=True)
class OutputPair:
    """One output on both sides: its name in a run, and its tensor's name among the sites."""

    name: str
    tensor: str
    twin_name: str
    twin_tensor: str


def align_outputs(
    net: Session, plain: Mapping[str, Any], twin: Session, twin_plain: Mapping[str, Any]
) -> tuple[OutputPair, ...]:
    """Match outputs by position, or by name where the twin gives only some of them."""
    ours = list(zip(plain, net.output_tensors, strict=False))
    theirs = list(zip(twin_plain, twin.output_tensors, strict=False))
    if len(theirs) < len(ours) and set(twin_plain) <= set(plain):
        tensors = dict(ours)
        return tuple(OutputPair(name, tensors[name], name, tensor) for name, tensor in theirs)
    return tuple(OutputPair(*a, *b) for a, b in zip(ours, theirs, strict=False))


@dataclass(frozen=True, slots=True)
class Units:
    """How coarsely the sides compute.

    `born` is the unit roundoff of the twin's declared precision, by which the born test measures. `plain` is that of
    the coarser side, by which end-to-end differences are measured. `narrow` twins compute in a coarser format than
    the network, so their small errors are ranked; `quantised` twins declare steps.
    """

    born: float
    plain: float
    narrow: bool = False
    quantised: bool = False

    @staticmethod
    def of(network: str, twin: str, *, quantised: bool = False) -> Units:
        """The units of two precisions.

        >>> Units.of("float32", "float16").narrow
        True
        """
        born = UNITS.get(twin, UNITS["float32"])
        plain = UNITS.get(coarser(network, twin), UNITS["float32"])
        narrow = quantised or born > UNITS.get(network, UNITS["float32"])
        return Units(born, max(plain, unit_of("int8")) if quantised else plain, narrow, quantised)


@dataclass(frozen=True)
class Observed:
    """How watching changes either side, and how two runs of the twin differ.

    `as_deployed` means that watching leaves the twin's outputs about what they are; `watched` holds the network's
    outputs of the watched run where they differ from the unwatched ones. `spread` is how far two equal runs of the twin
    are apart, by network tensor, and `varying` in which elements; both are empty for a deterministic twin.
    """

    as_deployed: bool = True
    watched: Mapping[str, np.ndarray] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    varying: Mapping[str, np.ndarray] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Two open sides, which of their sites are compared, and how each pair is judged.

    `graph` holds the network's canonical layers, where they are known. `test` judges the sites.
    """

    net: Session
    twin: Session
    graph: Graph | None
    pairing: Pairing
    outputs: tuple[OutputPair, ...]
    units: Units
    tolerances: Tolerances
    test: SiteJudge | None = None
    observed: Observed = field(default_factory=Observed)

    @property
    def lineage(self) -> Graph | None:
        """The layers that determine which site inherits from which: the network's, or its own judge's."""
        return self.test.graph if isinstance(self.test, OwnJudge) else self.graph

    @property
    def by_network(self) -> bool:
        """Whether the network's own meaning judges the sites."""
        return isinstance(self.test, OwnJudge)

    @property
    def twin_inputs(self) -> dict[str, str]:
        """Maps inputs of the twin's graph to those of the network's."""
        return {self.twin.inputs[n]: t for n, t in self.net.inputs.items() if n in self.twin.inputs}

    def by_tensor(self, sample: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """A sample by the names that the network's graph gives its inputs."""
        return {
            tensor: np.asarray(sample[name]) for name, tensor in self.net.inputs.items() if name in sample
        }

    def pair(self, tensor: str) -> Pair:
        """The pair of one of the network's tensors."""
        return next(p for p in self.pairing.pairs if p.site.tensor == tensor)


def with_judge(plan: Plan) -> Plan:
    """The plan with what judges its sites: the network's own meaning, else its canonical layers, else nothing."""
    return replace(plan, test=_site_judge(plan))


def _site_judge(plan: Plan) -> SiteJudge | None:
    net, twin, graph, pairs = plan.net, plan.twin, plan.graph, plan.pairing.pairs
    if net.meaning is not None:
        return net.meaning.judge(pairs, twin)
    if graph is None:
        return None
    # torch comes in with the layers; two recordings are compared without either.
    from twinnet.judge.born import BornTest

    declared = None
    if plan.units.quantised:
        from twinnet.judge.declared import Declared

        theirs = twin.graph()
        assert theirs is not None
        declared = Declared(graph, theirs, pairs, plan.twin_inputs)
    return BornTest(
        graph,
        pairs,
        unit=plan.units.born,
        inputs={tensor: name for name, tensor in net.inputs.items()},
        observable={s.tensor for s in plan.pairing.sites},
        spread=plan.observed.spread,
        declared=declared,
        half=twin.precision == "float16",
        as_deployed=plan.observed.as_deployed,
        apart=twin.watched_apart,
    )
