"""Networks that are graphs in a file, cut where a single tensor connects what is before with what comes after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from twinnet.cutting import Cut, GraphCutter, Node
from twinnet.engines import reference_spec
from twinnet.errors import UsageError
from twinnet.job import Arrays, Job
from twinnet.ladder.source import Place, Source

__all__ = ["GraphSource"]

_MOST = 24


class GraphSource(Source):
    """Cuts of a graph. One of more than `most` rungs is cut at some of its waists; the rest are inside the blocks."""

    def __init__(
        self,
        network: Any,
        cutter: GraphCutter,
        samples: Sequence[Arrays],
        at: Sequence[str] = (),
        most: int = _MOST,
    ) -> None:
        self.network: Any = network
        self.samples = samples
        self._cutter = cutter
        self._nodes = cutter.nodes()
        last = len(self._nodes) - 1
        inner = [w for w in _waists(self._nodes, cutter.outputs) if w[0] != last]
        if at:
            inner = [w for w in inner if any(fnmatchcase(self._nodes[w[0]].name, p) for p in at)]
            if not inner:
                raise UsageError(f"{network.name} cannot be cut at any node that matches --at {' '.join(at)}")
        elif len(inner) >= most:
            inner = [inner[(i + 1) * len(inner) // most] for i in range(most - 1)]
        self._cuts: list[tuple[int, Any]] = [*inner, (last, None)]

    def _places(self) -> Iterator[Place]:
        nodes, start = self._nodes, 0
        often = Counter(n.name for n in nodes)
        for stop, _ in self._cuts:
            inside, before = nodes[start : stop + 1], nodes[:start]
            known = {n.op for n in before}
            ops = tuple(dict.fromkeys(n.op for n in inside if n.op not in known))
            own = sum(n.parameters for n in inside)
            kind = inside[0].op if len(inside) == 1 else f"{len(inside)} operators"
            last = nodes[stop]
            name = last.name if often[last.name] == 1 else f"{last.name} {last.op} #{stop}"
            yield Place(name, kind, own + sum(n.parameters for n in before), own, ops)
            start = stop + 1

    def nodes_of(self, index: int) -> Sequence[Node]:
        """The operators of a place."""
        start = self._cuts[index - 1][0] + 1 if index else 0
        return self._nodes[start : self._cuts[index][0] + 1]

    def prefix(self, index: int) -> Cut:
        value = self._cuts[index][1]
        if value is None:
            return Cut(self.network, self.samples)
        return self._cutter.between(None, value, self.samples)

    def block(self, index: int) -> Cut | None:
        if index == 0:
            return self.prefix(0)
        before = self.prefix(index - 1)
        given = [_run(before.network, sample) for sample in before.samples]
        return self._cutter.between(self._cuts[index - 1][1], self._cuts[index][1], given)

    def starts_at(self, index: int) -> bool:
        return index == 0

    def index_of(self, module: str) -> int | None:
        names = [n.name for n in self._nodes]
        if module not in names:
            return None
        place = names.index(module)
        return next(i for i, (stop, _) in enumerate(self._cuts) if place <= stop)


def _run(network: Any, sample: Arrays) -> Arrays:
    spec = reference_spec(network)
    session = spec.open(network, Job(inputs=sample, samples=[sample]))
    try:
        return session.run(sample)
    finally:
        session.close()


def _waists(nodes: Sequence[Node], outputs: frozenset[Any]) -> list[tuple[int, Any]]:
    """Where exactly one value that depends on an input is still needed: after which node, and which value."""
    last: dict[Any, int] = {}
    made = {value for node in nodes for value in node.makes}
    given = {value for node in nodes for value in node.reads} - made
    for index, node in enumerate(nodes):
        last.update(dict.fromkeys(node.reads, index))
    last.update(dict.fromkeys(outputs, len(nodes)))
    live = {value for value in given if value in last}
    found = []
    for index, node in enumerate(nodes):
        live |= {value for value in node.makes if value in last}
        live = {value for value in live if last[value] > index}
        if len(live) == 1 and next(iter(live)) in made:
            found.append((index, next(iter(live))))
    return found
