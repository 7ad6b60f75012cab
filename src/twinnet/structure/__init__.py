"""Compare two networks without running them: layers, attributes, weights, inputs and outputs."""

from __future__ import annotations

from twinnet.structure.change import Change, StructureDiff
from twinnet.structure.graphs import compare_graphs, not_the_same
from twinnet.structure.networks import diff, graph_of

__all__ = ["Change", "StructureDiff", "compare_graphs", "diff", "graph_of", "not_the_same"]
