"""Operands in another order: subtraction, division, concatenation, the branches of a choice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Patch, Problem
from twinnet.result import fact

_ORDERED = {
    "sub", "div", "pow", "mod", "atan2", "matmul", "less", "greater", "less_equal", "greater_equal",
}  # fmt: skip


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        a_b = layer.inputs
        if layer.kind in _ORDERED:
            found = fact("operands.swapped", operator=layer.kind, network="a, b", twin="b, a")
            yield changed("operand order", found, i, inputs=(a_b[1], a_b[0]))
        elif layer.kind == "where":
            found = fact("operands.branches", network="a, b", twin="b, a")
            yield changed("operand order", found, i, inputs=(a_b[0], a_b[2], a_b[1]))
        elif layer.kind == "attention":
            for x, y, names in ((0, 1, ("query", "key")), (1, 2, ("key", "value"))):
                swapped = list(a_b)
                swapped[x], swapped[y] = swapped[y], swapped[x]
                found = fact("operands.of_attention", operands=names)
                yield changed("operand order", found, i, inputs=swapped)
        elif layer.kind in ("concat", "stack") and 2 <= len(a_b) <= 5:
            for order in itertools.permutations(range(len(a_b))):
                ours = tuple(range(len(a_b)))
                if order != ours:
                    found = fact("operands.joined", network=ours, twin=order)
                    yield changed("operand order", found, i, inputs=[a_b[k] for k in order])
        elif layer.kind == "split" and problem.target in layer.outputs:
            at = layer.outputs.index(problem.target)
            for other, name in enumerate(layer.outputs):
                if other != at and name:
                    moved = list(layer.outputs)
                    moved[at], moved[other] = moved[other], moved[at]
                    yield Candidate(
                        kind="operand order",
                        fact=fact("operands.part", network=at, twin=other),
                        change=lambda p, i=i, m=tuple(moved): _outputs(p, i, m),
                    )


def _outputs(problem: Problem, i: int, names: tuple[str, ...]) -> Patch:
    return Patch(i, i + 1, (replace(problem.layers[i], outputs=names),))
