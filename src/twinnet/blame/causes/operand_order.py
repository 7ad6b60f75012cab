"""Operands in another order: subtraction, division, concatenation, the branches of a choice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.problem import Problem

_WORDS = {"sub": "b - a where the network has a - b", "div": "b / a where the network has a / b"}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        a_b = layer.inputs
        if layer.kind in (
            "sub",
            "div",
            "pow",
            "mod",
            "atan2",
            "matmul",
            "less",
            "greater",
            "less_equal",
            "greater_equal",
        ):
            words = _WORDS.get(layer.kind, f"{layer.kind} with its two operands swapped")
            yield in_words(
                "operand order", words, lambda p, i=i, n=a_b: p.change(i, inputs=(n[1], n[0])), "a, b", "b, a"
            )
        elif layer.kind == "where":
            words = "takes the branches of the choice the other way round"
            yield in_words(
                "operand order",
                words,
                lambda p, i=i, n=a_b: p.change(i, inputs=(n[0], n[2], n[1])),
                "a, b",
                "b, a",
            )
        elif layer.kind == "attention":
            for x, y, names in ((0, 1, "query and key"), (1, 2, "key and value")):
                swapped = list(a_b)
                swapped[x], swapped[y] = swapped[y], swapped[x]

                def change(p: Problem, i=i, n=tuple(swapped)):
                    return p.change(i, inputs=n)

                yield in_words("operand order", f"takes {names} the other way round", change)
        elif layer.kind in ("concat", "stack") and 2 <= len(a_b) <= 5:
            for order in itertools.permutations(range(len(a_b))):
                if order == tuple(range(len(a_b))):
                    continue
                words = f"joins the operands in the order {plain(order)}, not as they come"

                def joined(p: Problem, i=i, n=tuple(a_b[k] for k in order)):
                    return p.change(i, inputs=n)

                yield in_words("operand order", words, joined, tuple(range(len(a_b))), order)
        elif layer.kind == "split" and problem.target in layer.outputs:
            at = layer.outputs.index(problem.target)
            for other, name in enumerate(layer.outputs):
                if other != at and name:
                    moved = list(layer.outputs)
                    moved[at], moved[other] = moved[other], moved[at]
                    words = f"takes part {other} of the split where the network takes part {at}"
                    yield in_words(
                        "operand order", words, lambda p, i=i, m=tuple(moved): _outputs(p, i, m), at, other
                    )


def _outputs(problem: Problem, i: int, names: tuple[str, ...]):
    from dataclasses import replace

    from twinnet.blame.problem import Patch

    return Patch(i, i + 1, (replace(problem.layers[i], outputs=names),))
