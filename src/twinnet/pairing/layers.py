"""Match the layers of two networks without running them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from twinnet.layers.graph import Graph
from twinnet.pairing.topology import by_topology

__all__ = ["LayerMatch"]


class LayerMatch:
    """Maps layers of `a` to layers of `b`: alternately by topology and by order between matches."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self._a, self._b = a, b
        self.partner: dict[int, int] = {}
        # Names of b to names of a.
        self._names: dict[str, str] = dict(zip(b.inputs, a.inputs, strict=False))
        self._topology()
        self.sure = dict(self.partner)
        for alike in (self._detailed, self._kind_only):
            while self._by_order(alike):
                self._topology()

    def _topology(self) -> None:
        taken = set(self.partner.values())
        for ours, theirs in list(by_topology(self._a, self._b, dict(self._names))):
            i, j = self._a.producer[ours], self._b.producer[theirs]
            if i not in self.partner and j not in taken:
                self.partner[i] = j
                taken.add(j)
            self._names.setdefault(theirs, ours)

    def _by_order(self, alike: Callable[[Graph, int], object]) -> bool:
        """Pair remaining layers that look alike between the same neighbours; one against one is a replacement.

        Paired layers have a unique token on both sides, so that the rest is aligned between them.
        """
        back = {j: i for i, j in self.partner.items()}
        if len(self.partner) in (len(self._a), len(self._b)):
            return False
        ours = [("paired", i) if i in self.partner else alike(self._a, i) for i in range(len(self._a))]
        theirs = [("paired", back[j]) if j in back else alike(self._b, j) for j in range(len(self._b))]
        found = False
        for tag, i0, i1, j0, j1 in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            replaced = tag == "replace" and i1 - i0 == j1 - j0 == 1 and self._same_place(i0, j0)
            if tag != "equal" and not replaced:
                continue
            for i, j in zip(range(i0, i1), range(j0, j1), strict=True):
                if i not in self.partner and j not in back:
                    self._pair(i, j)
                    back[j] = i
                    found = True
        return found

    def _same_place(self, i: int, j: int) -> bool:
        """Whether two layers read the same values, as far as these are known."""
        ours = {n for n in self._a.layers[i].inputs if n is not None and n not in self._a.constants}
        theirs = {
            self._names.get(n)
            for n in self._b.layers[j].inputs
            if n is not None and n not in self._b.constants
        }
        return bool(ours & theirs) or ours == theirs

    def _pair(self, i: int, j: int) -> None:
        self.partner[i] = j
        for ours, theirs in zip(self._a.layers[i].outputs, self._b.layers[j].outputs, strict=False):
            if ours and theirs:
                self._names.setdefault(theirs, ours)

    @staticmethod
    def _detailed(graph: Graph, index: int) -> tuple[Any, ...]:
        layer = graph.layers[index]
        shapes = tuple(tuple(graph.constants[n].shape) for n in layer.inputs if n and n in graph.constants)
        return (layer.kind, shapes)

    @staticmethod
    def _kind_only(graph: Graph, index: int) -> tuple[Any, ...]:
        return (graph.layers[index].kind,)
