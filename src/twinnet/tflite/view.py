# ruff: noqa: SIM905 (a list of words reads best as text)
"""Which tensors of a TFLite graph hold their channels last.

TFLite computes images as NHWC; canonical layers are NCHW. A tensor that a spatial operator reads or makes has its
channels last, and so has every tensor joined to it by operators that keep the order of axes. Such tensors are seen with
their channels first, and the transposes that a converter put around them become copies.

Inputs and outputs of the network keep the form that the file declares, unless `turned` names them: a twin is fed and
read in the form of its network.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from twinnet.tflite.model import Operator, Subgraph

__all__ = ["MOVES", "SPATIAL", "View", "first_to_last", "last_to_first"]

SPATIAL = {
    "CONV_2D": 0,
    "DEPTHWISE_CONV_2D": 0,
    "TRANSPOSE_CONV": 2,
    "AVERAGE_POOL_2D": 0,
    "MAX_POOL_2D": 0,
    "L2_POOL_2D": 0,
    "RESIZE_BILINEAR": 0,
    "RESIZE_NEAREST_NEIGHBOR": 0,
    "DEPTH_TO_SPACE": 0,
    "SPACE_TO_DEPTH": 0,
}
"""Operators that need channels last, and which operand is their data."""

MOVES = set(
    """
ABS CEIL COS ELU EXP FLOOR LOG LOGISTIC NEG RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 ROUND RSQRT SIN SQRT SQUARE TANH
HARD_SWISH GELU LEAKY_RELU SIGN LOGICAL_NOT QUANTIZE DEQUANTIZE CAST PRELU ADD SUB MUL DIV MAXIMUM MINIMUM POW
FLOOR_DIV FLOOR_MOD SQUARED_DIFFERENCE EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL LOGICAL_AND LOGICAL_OR
ATAN2 SELECT_V2 SELECT ADD_N CONCATENATION PAD PADV2 MIRROR_PAD SOFTMAX LOG_SOFTMAX SLICE STRIDED_SLICE SPLIT SPLIT_V
L2_NORMALIZATION TILE
""".split()
)
"""Operators that keep the order of axes and have a form for either order."""

REDUCES = {"MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"}


def last_to_first(rank: int) -> tuple[int, ...]:
    """The permutation from channels last to channels first.

    >>> last_to_first(4), first_to_last(4)
    ((0, 3, 1, 2), (0, 2, 3, 1))
    """
    return (0, rank - 1, *range(1, rank - 1))


def first_to_last(rank: int) -> tuple[int, ...]:
    """The permutation back."""
    return (0, *range(2, rank), 1)


@dataclass(frozen=True)
class View:
    """The form in which the tensors of a graph are seen.

    `turned` are inputs and outputs that hold channels last and are seen with channels first all the same; `real` are
    integer inputs and outputs that are seen as the real numbers they stand for.
    """

    graph: Subgraph
    turned: frozenset[int] = frozenset()
    real: frozenset[int] = frozenset()

    @cached_property
    def last(self) -> frozenset[int]:
        """Tensors that hold channels last."""
        return frozenset(_channels_last(self.graph))

    def seen_first(self, tensor: int) -> bool:
        """Whether a tensor's value is shown with its channels first, unlike in the file."""
        ends = tensor in self.graph.inputs or tensor in self.graph.outputs
        return tensor in self.last and (not ends or tensor in self.turned)


def _channels_last(graph: Subgraph) -> Collection[int]:
    parent = list(range(len(graph.tensors)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    marked: list[int] = []
    for op in graph.operators:
        if op.op in SPATIAL:
            place = SPATIAL[op.op]
            marked += [t for t in (*op.inputs[place : place + 1], *op.outputs) if t >= 0]
        for a, b in _joined(graph, op):
            parent[find(a)] = find(b)
    roots = {find(t) for t in marked if _rank(graph, t) == 4}
    return {
        t.index
        for t in graph.tensors
        if t.data is None and _rank(graph, t.index) == 4 and find(t.index) in roots
    }


def _joined(graph: Subgraph, op: Operator) -> list[tuple[int, int]]:
    """Pairs of data tensors of an operator that have the same order of axes."""
    if op.op not in MOVES and not (op.op in REDUCES and op.options.get("keepdims")):
        return []
    if op.op == "STRIDED_SLICE" and any(
        op.options[k] for k in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    ):
        return []
    made = [t for t in op.outputs if t >= 0 and _rank(graph, t) == 4]
    read = [t for t in op.inputs if t >= 0 and graph.tensors[t].data is None and _rank(graph, t) == 4]
    together = made + read
    return list(pairwise(together)) if made else []


def _rank(graph: Subgraph, tensor: int) -> int:
    shape = graph.tensors[tensor].shape
    return -1 if shape is None else len(shape)
