"""Pair sites by names and structure, without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinnet.layers.graph import Graph
from twinnet.pairing.bare import by_bare_layers
from twinnet.pairing.labels import by_label
from twinnet.pairing.provenance import by_module, by_name
from twinnet.pairing.quantised import (
    carriers,
    folded,
    is_quantised,
    quantised_names,
    raw_values,
    steps_of_all,
    unquantised,
)
from twinnet.pairing.scales import by_folded_scales, scaled_otherwise
from twinnet.pairing.topology import by_topology
from twinnet.pairing.transforms import IDENTITY, Transform
from twinnet.site import Site

__all__ = ["BARE", "Pair", "Pairing", "Side", "pair_sites", "pairs_beside"]

BARE = 0.7
"""The confidence of pairs whose axes may have any order."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A site of the network and the site of the twin that must hold the same tensor."""

    site: Site
    twin_site: Site
    how: str
    confidence: float = 1.0
    transform: Transform = IDENTITY


@dataclass(frozen=True)
class Pairing:
    """All pairs in the network's order, and the sites of both sides."""

    pairs: tuple[Pair, ...]
    sites: tuple[Site, ...]
    twin_sites: tuple[Site, ...]

    @property
    def unmatched(self) -> tuple[Site, ...]:
        taken = {p.site.tensor for p in self.pairs}
        return tuple(s for s in self.sites if s.tensor not in taken)

    @property
    def unmatched_twin(self) -> tuple[Site, ...]:
        taken = {p.twin_site.tensor for p in self.pairs}
        return tuple(s for s in self.twin_sites if s.tensor not in taken)

    def extended(self, more: Sequence[Pair]) -> Pairing:
        """With further pairs, kept in the network's order."""
        order = {s.tensor: i for i, s in enumerate(self.sites)}
        pairs = sorted((*self.pairs, *more), key=lambda p: order[p.site.tensor])
        return replace(self, pairs=tuple(pairs))

    def without(self, tensors: set[str]) -> Pairing:
        """Without the pairs of these network tensors."""
        return replace(self, pairs=tuple(p for p in self.pairs if p.site.tensor not in tensors))


@dataclass(frozen=True)
class Side:
    """What pairing knows of one side: its sites and, where they are known, its canonical layers.

    `provenance` maps tensors of a twin to the network's tensors that they were made from. `by_hand` means that people
    named its tensors.
    """

    sites: Sequence[Site]
    graph: Graph | None = None
    provenance: Mapping[str, str] | None = None
    by_hand: bool = False


def pair_sites(
    network: Side,
    twin_side: Side,
    *,
    derived: bool,
    names: Mapping[str, str] | None = None,
    outputs: Sequence[tuple[str, str]] = (),
    inputs: Sequence[tuple[str, str]] = (),
) -> Pairing:
    """Pair the sites of a network with those of a twin.

    `derived` means that the twin was made from this network: without provenance, equal names then mean equal
    tensors. Otherwise equal names count only if the operators agree. `names` are the user's own pairs, from network
    tensor to twin tensor, or to "" where there is no counterpart. `outputs` and `inputs` are (network, twin) names
    that correspond by position.
    """
    sites, graph = network.sites, network.graph
    twin_sites, twin_graph, provenance = twin_side.sites, twin_side.graph, twin_side.provenance
    found: dict[str, tuple[str, str, float]] = {}
    transforms: dict[str, Transform] = {}
    known = {s.tensor: s for s in sites}
    twin_known = {s.tensor: s for s in twin_sites}
    taken: set[str] = set()
    # In a quantised twin the input of a quantiser is not what the next operator reads.
    quantised = graph is not None and is_quantised(twin_graph)
    hidden = raw_values(twin_graph) if quantised and twin_graph is not None else set()
    rounded = quantised and not is_quantised(graph)
    integers = steps_of_all(twin_graph) if rounded and twin_graph is not None else {}
    seen: dict[str, str] = {}

    def take(tensor: str, twin: str, how: str, confidence: float, transform: Transform = IDENTITY) -> None:
        if twin in hidden and how != "stated":
            seen.setdefault(twin, tensor)
            return
        if tensor in known and twin in twin_known and tensor not in found and twin not in taken:
            found[tensor] = (twin, how, confidence)
            if transform.is_identity and how not in ("output", "stated"):
                transform = integers.get(twin, IDENTITY)
            transforms[tensor] = transform
            taken.add(twin)

    for tensor, twin in (names or {}).items():
        take(tensor, twin, "stated", 1.0)
    for tensor, twin in outputs:
        take(tensor, twin, "output", 1.0)
    for tensor, twin in (names or {}).items():
        if not twin and tensor not in found:
            known.pop(tensor, None)  # stated to have no counterpart, even if names agree
    if provenance is not None:
        for twin, tensor in provenance.items():
            take(tensor, twin, "provenance", 1.0 if derived else 0.95)
    if network.by_hand or twin_side.by_hand:
        for tensor, twin, confidence in by_label(sites, twin_sites):
            take(tensor, twin, "name", confidence)
    elif provenance is None or not derived:
        for tensor, twin, confidence in by_name(sites, twin_sites, derived=derived):
            take(tensor, twin, "provenance", confidence)
    if derived and quantised and graph is not None and twin_graph is not None:
        # Quantisation tools keep value names.
        own = {n: n for n in known} if provenance is None else provenance
        for tensor, twin, transform in carriers(twin_graph, quantised_names(twin_graph, own, graph)):
            take(tensor, twin, "provenance", 1.0, transform)
    start = {twin: tensor for tensor, twin in inputs}
    if graph is not None and twin_graph is not None and not derived:
        start.update({twin: tensor for tensor, (twin, _, _) in found.items()})
        if quantised:
            for tensor, twin, confidence in by_module(sites, twin_sites):
                if twin in hidden:
                    take(tensor, twin, "module", confidence)
            for tensor, twin, transform in _through_quantisers(graph, twin_graph, {**seen, **start}):
                take(tensor, twin, "topology", 0.9, transform)
        else:
            for tensor, twin in by_folded_scales(graph, twin_graph, start):
                take(tensor, twin, "topology", 0.9)
            hidden |= scaled_otherwise(graph, twin_graph)
            for tensor, twin in _by_layers(graph, twin_graph, start):
                take(tensor, twin, "topology", 0.9)
    if not derived:
        for tensor, twin, confidence in by_module(sites, twin_sites):
            take(tensor, twin, "module", confidence)
        if graph is not None and twin_graph is not None and not quantised:
            known_now = {twin: tensor for tensor, (twin, _, _) in found.items()}
            for tensor, twin in _by_layers(graph, twin_graph, {**start, **known_now}):
                take(tensor, twin, "topology", 0.8)
        if graph is not None and twin_graph is not None:
            known_now = {twin: tensor for tensor, (twin, _, _) in found.items()}
            for tensor, twin in by_bare_layers(graph, twin_graph, {**start, **known_now}):
                take(tensor, twin, "topology", BARE)
    order = {s.tensor: i for i, s in enumerate(sites)}
    pairs = tuple(
        Pair(known[tensor], twin_known[twin], how, confidence, transforms[tensor])
        for tensor, (twin, how, confidence) in sorted(found.items(), key=lambda item: order[item[0]])
    )
    return Pairing(pairs, tuple(sites), tuple(twin_sites))


def pairs_beside(
    pairing: Pairing, graph: Graph, twin_graph: Graph, inputs: Sequence[tuple[str, str]]
) -> tuple[Pair, ...]:
    """Further pairs that follow by structure from those there are; `inputs` correspond as in `pair_sites`."""
    names = {twin: tensor for tensor, twin in inputs}
    names.update({p.twin_site.tensor: p.site.tensor for p in pairing.pairs})
    free, twin_free = ({s.tensor: s for s in part} for part in (pairing.unmatched, pairing.unmatched_twin))
    found: list[Pair] = []
    for tensor, twin in by_bare_layers(graph, twin_graph, names):
        if tensor in free and twin in twin_free:
            found.append(Pair(free.pop(tensor), twin_free.pop(twin), "topology", BARE))
    return tuple(found)


def _by_layers(graph: Graph, twin_graph: Graph, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs by structure, as the graphs are and in fewer forms.

    Where the twin folded batch norms into what is before them, its layers hold what is behind them in the network.
    """
    from twinnet.layers.simplify import simplified

    norms, twin_norms = (sum(layer.kind == "batch_norm" for layer in g) for g in (graph, twin_graph))
    forms = [(graph, twin_graph), (None, None)]
    for ours, theirs in reversed(forms) if norms > twin_norms else forms:
        if ours is None or theirs is None:
            if all(n in names for layer in twin_graph for n in layer.outputs if n):
                continue
            ours, theirs = simplified(graph), simplified(twin_graph)
        yield from by_topology(ours, theirs, names)


def _through_quantisers(
    graph: Graph, twin_graph: Graph, names: dict[str, str]
) -> Iterator[tuple[str, str, Transform]]:
    """Pairs of a quantised twin: at quantised values first, then as in any other twin."""
    from twinnet.layers.simplify import simplified

    # Quantisation tools fold batch norm first, and hold weights as integers.
    ours, theirs = simplified(graph), simplified(folded(twin_graph))
    bare, roots = unquantised(theirs)
    plain = list(by_folded_scales(ours, simplified(bare), names))
    plain += by_topology(ours, theirs, names)
    # What a quantiser stands between (a gate and its product, an image and its border) is joined without it.
    for value, root in roots.items():
        if value in names:
            names.setdefault(root, names[value])
    plain += by_topology(ours, simplified(bare), names)
    for value, root in roots.items():
        if root in names:
            names.setdefault(value, names[root])
    yield from carriers(theirs, names)
    for tensor, twin in plain:
        yield tensor, twin, IDENTITY
