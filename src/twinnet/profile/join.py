"""Join the steps of an engine to the layers of the network.

A step names tensors of the twin; pairs say which value of the network each is. What the step computes of the network
are then the layers from there back to the values that other steps make: all that were fused into it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from twinnet.engines.timing import LayerTime
from twinnet.layers.graph import Graph, Layer

__all__ = ["Joined", "Joiner"]


_MOVES = re.compile(
    r"(de|dynamic)?quantize(linear)?|reorder\w*|transpose\w*|permute\w*|cast|convert|_?to_copy|clone|copy_?|(mirror_?)?pad\w*"
)


def _only_moves(step: LayerTime) -> bool:
    """Whether a step changes layout, border or number format, and computes nothing."""
    return _MOVES.fullmatch(step.op.lower().partition(".")[0]) is not None


@dataclass(frozen=True)
class Joined:
    """A step and its place in the network: the values it makes, or helps to make, and the layers it computes.

    `sites` are also the values between fused layers, the last one first.
    """

    step: LayerTime
    sites: tuple[str, ...]
    layers: tuple[Layer, ...]
    helps: bool


@dataclass(frozen=True)
class Joiner:
    """Joins steps by the values of the twin (`pairs`: twin to network), the network's layers and the twin's."""

    graph: Graph | None
    pairs: Mapping[str, str]
    twin_graph: Graph | None = None

    def join(self, steps: Sequence[LayerTime]) -> list[Joined]:
        """Every step with its place; a layer that several steps name, or help to make, belongs to the dearest of them.

        One that only changes the form of values gives way to one that computes.
        """
        own = [tuple(dict.fromkeys(self.pairs[t] for t in s.tensors if t in self.pairs)) for s in steps]
        known = {name for names in own for name in names}
        taken: set[int] = set()
        found: dict[int, Joined] = {}
        for place in sorted(range(len(steps)), key=lambda i: (_only_moves(steps[i]), -steps[i].seconds)):
            step, names = steps[place], own[place]
            near = names or self._toward((*step.tensors, *step.toward))
            layers = () if not names and _only_moves(step) else self._layers(near, known, taken)
            if layers or (names and self.graph is None):
                inner = [name for layer in layers for name in layer.outputs if name]
                found[place] = Joined(step, tuple(dict.fromkeys((*near[::-1], *inner))), layers, False)
            else:
                found[place] = Joined(step, near, self._layers(near, known, None), True)
        return [found[place] for place in range(len(steps))]

    def _layers(
        self, names: Collection[str], known: Collection[str], taken: set[int] | None
    ) -> tuple[Layer, ...]:
        """The layers behind some values; those already `taken` are left out."""
        graph = self.graph
        if graph is None or not names:
            return ()
        there = [n for n in names if n in graph.producer]
        # A value that another step makes as well (a change of layout) does not end the walk at its own layer.
        indices, _ = graph.segment(there, known)
        chosen = [i for i in indices if graph.layers[i].outputs[0] not in graph.static]
        if taken is not None:
            chosen = [i for i in chosen if i not in taken]
            taken.update(chosen)
        return tuple(graph.layers[i] for i in chosen)

    def _toward(self, tensors: Collection[str]) -> tuple[str, ...]:
        """The nearest values of the network that follow from values which the network does not have."""
        found: dict[str, None] = {}
        seen: set[str] = set()
        stack = list(tensors)
        while stack:
            name = stack.pop()
            if name in self.pairs:
                found[self.pairs[name]] = None
            elif name not in seen and self.twin_graph is not None:
                seen.add(name)
                for index in self.twin_graph.consumers.get(name, ()):
                    stack.extend(self.twin_graph.layers[index].outputs)
        return tuple(found)
