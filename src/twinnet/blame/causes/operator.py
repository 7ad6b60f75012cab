"""Another operator in the place of one, or a step left out."""

from __future__ import annotations

from collections.abc import Iterator

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Problem
from twinnet.result import fact

_BINARY = ("add", "sub", "mul", "div", "max", "min", "pow")
_UNARY = (
    "neg", "abs", "sqrt", "rsqrt", "reciprocal", "square", "exp", "exp2", "expm1", "log", "log1p", "log2",
    "log10", "sin", "cos", "tan", "sinh", "cosh", "erf", "erfc",
)  # fmt: skip
_REDUCE = (
    "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1", "reduce_l2",
    "reduce_log_sum", "reduce_log_sum_exp", "reduce_sum_square", "reduce_std", "reduce_var",
)  # fmt: skip
_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_LOGIC = ("and", "or", "xor")
_SOFT = ("softmax", "log_softmax", "hardmax")
_GROUPS = (_BINARY, _UNARY, _REDUCE, _COMPARE, _LOGIC, _SOFT, ("argmax", "argmin"), ("cumsum", "cumprod"))


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        for group in _GROUPS:
            if layer.kind not in group or (group is _BINARY and len(layer.inputs) != 2):
                continue
            for other in group:
                if other != layer.kind:
                    found = fact("operator.another", network=layer.kind, twin=other)
                    yield changed("operator", found, i, kind=other)
        yield from _left_out(problem, i)


def _left_out(problem: Problem, i: int) -> Iterator[Candidate]:
    layer = problem.layers[i]
    if layer.kind in (*_BINARY, "sum", "mean", "where"):
        varying = [p for p, n in enumerate(layer.inputs) if n is not None and n not in problem.constants]
        if len(varying) < 2:
            return  # a constant left out is named by the family of constants
        for place in varying:
            if problem.tensor(i, place).shape == problem.out(i).shape:
                yield Candidate(
                    kind="operator",
                    fact=fact("operator.passed_on", network=layer.kind, twin="nothing", operand=place),
                    change=lambda p, k=place: p.drop(i, k),
                )
    elif layer.kind in (*_UNARY, *_SOFT, "cumsum"):
        yield Candidate(
            kind="operator",
            fact=fact("operator.left_out", network=layer.kind, twin="nothing"),
            change=lambda p: p.drop(i),
        )
