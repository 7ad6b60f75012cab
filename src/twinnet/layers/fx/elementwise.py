"""Rules for arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

import torch

from twinnet.layers.fx.call import Call, Const, Form, Operand, Result, rules

__all__: list[str] = []

_REAL = (
    "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    "erf", "erfc", "sigmoid", "tanh",
)  # fmt: skip
_ANY = ["neg", "abs", "square", "relu", "round", "floor", "ceil", "trunc", "sign", "isnan", "bitwise_not"]
_SAME = {"special_erf": "erf", "special_expm1": "expm1", "special_log1p": "log1p", "special_exp2": "exp2"}
_SAME |= {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "negative": "neg", "absolute": "abs"}
_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_BITS = {"and": "and", "or": "or", "xor": "xor"}


@rules.add(*_REAL, *(name for name, kind in _SAME.items() if kind in _REAL))
def _real(call: Call) -> Result:
    return Form(_SAME.get(call.op, call.op), [call.real("self")])


@rules.add(*_ANY, *(name for name, kind in _SAME.items() if kind in _ANY))
def _any(call: Call) -> Result:
    if call.op == "round" and "decimals" in call and call["decimals"]:
        return None
    if call.op == "bitwise_not" and call.dtype("self") == torch.bool:
        return Form("not", [call.value("self")])
    kind = _SAME.get(call.op, call.op)
    if kind == "abs" and call.dtype("self").is_complex:
        kind = "modulus"
    return Form(kind, [call.value("self")])


@rules.add("isinf")
def _isinf(call: Call) -> Result:
    return Form("isinf", [call.value("self")])


@rules.add("isfinite")
def _isfinite(call: Call) -> Result:
    x = call.value("self")
    return Form("not", [Form("or", [Form("isnan", [x]), Form("isinf", [x])])])


@rules.add("add", "sub")
def _add(call: Call) -> Result:
    alpha = call.get("alpha", 1)
    return Form(
        call.op, [call.operand("self"), call.operand("other")], {"alpha": alpha} if alpha != 1 else {}
    )


@rules.add("rsub")
def _rsub(call: Call) -> Result:
    alpha = call["alpha"]
    return Form("sub", [call.operand("other"), call.operand("self")], {"alpha": alpha} if alpha != 1 else {})


@rules.add("mul", "multiply", "atan2", "arctan2")
def _binary(call: Call) -> Result:
    return Form(
        "mul" if call.op.startswith("mul") else "atan2", [call.operand("self"), call.operand("other")]
    )


@rules.add("maximum", "minimum")
def _extreme(call: Call) -> Result:
    return Form(call.op[:3], [call.value("self"), call.value("other")])


@rules.add("div", "divide", "true_divide", "floor_divide")
def _div(call: Call) -> Result:
    rounding = "floor" if call.op == "floor_divide" else call.get("rounding_mode", None)
    a, b = call.operand("self"), call.operand("other")
    if rounding is not None:
        return Form("div", [a, b], {"rounding": rounding})
    if not call.dtype("self").is_floating_point and not call.dtype("self").is_complex:
        a = Form("cast", [a], {"to": call.dtype()})
    return Form("div", [a, b])


@rules.add("remainder", "fmod")
def _mod(call: Call) -> Result:
    attrs = {"fmod": True} if call.op == "fmod" else {}
    return Form("mod", [call.operand("self", exact=True), call.operand("other", exact=True)], attrs)


@rules.add("pow")
def _pow(call: Call) -> Result:
    return Form("pow", [call.operand("self"), call.operand("exponent")])


@rules.add("lerp")
def _lerp(call: Call) -> Result:
    return Form("lerp", [call.value("self"), call.value("end"), call.operand("weight")])


@rules.add("addcmul", "addcdiv")
def _added(call: Call) -> Result:
    kind = "mul" if call.op == "addcmul" else "div"
    value = call["value"]
    term = Form(kind, [call.value("tensor1"), call.value("tensor2")])
    return Form("add", [call.value("self"), term], {"alpha": value} if value != 1 else {})


@rules.add(*_COMPARE)
def _compare(call: Call) -> Result:
    return Form(_COMPARE[call.op], [call.operand("self", exact=True), call.operand("other", exact=True)])


@rules.add(
    *(f"{prefix}_{name}" for prefix in ("logical", "bitwise") for name in _BITS),
    "__and__",
    "__or__",
    "__xor__",
)
def _logic(call: Call) -> Result:
    name = call.op.strip("_").split("_")[-1]
    operands = [call.operand("self", exact=True), call.operand("other", exact=True)]
    if call.dtype() == torch.bool:
        if call.op.startswith("logical"):
            operands = [_truth(call, name) for name in ("self", "other")]
        return Form(_BITS[name], operands)
    return Form(f"bitwise_{name}", operands)


@rules.add("logical_not")
def _logical_not(call: Call) -> Result:
    return Form("not", [_truth(call, "self")])


def _truth(call: Call, name: str) -> Operand:
    value = call.value(name)
    return value if call.dtype(name) == torch.bool else Form("cast", [value], {"to": torch.bool})


@rules.add("where")
def _where(call: Call) -> Result:
    if "self" not in call or "other" not in call:
        return None  # where(condition) alone is nonzero
    return Form("where", [call.value("condition"), _chosen(call, "self"), _chosen(call, "other")])


@rules.add("masked_fill")
def _masked_fill(call: Call) -> Result:
    return Form("where", [call.value("mask"), _chosen(call, "value"), call.value("self")])


def _chosen(call: Call, name: str) -> Operand:
    """An operand of `where`; a number is rounded to the type of the result."""
    operand = call.operand(name, exact=True)
    if isinstance(operand, str) or operand is None:
        return operand
    return Const(torch.tensor(call[name], dtype=call.dtype()), name)
