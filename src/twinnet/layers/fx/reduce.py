"""Rules for reductions, running sums, and the search for the largest."""

from __future__ import annotations

import math

import torch

from twinnet.layers.fx.call import Call, Form, Operand, Result, rules

__all__: list[str] = []


def _kept(call: Call) -> bool:
    return bool(call["keepdim"]) if "keepdim" in call else False


def _truth(call: Call) -> Form:
    return Form("cast", [call.value("self")], {"to": torch.bool})


@rules.add("sum", "mean", "prod", "amax", "amin", "logsumexp", "any", "all")
def _reduce(call: Call) -> Result:
    kinds = {"amax": "max", "amin": "min", "logsumexp": "log_sum_exp"}
    x = call.value("self") if call.op in ("amax", "amin") else call.real("self")
    if call.op in ("any", "all"):
        x = call.value("self") if call.dtype("self") == torch.bool else _truth(call)
    attrs = {"axes": call.axes("dim", "self"), "keepdims": _kept(call)}
    return Form(f"reduce_{kinds.get(call.op, call.op)}", [x], attrs)


@rules.add("max", "min")
def _max(call: Call) -> Result:
    x = call.value("self")
    if "other" in call:
        return Form(call.op, [x, call.value("other")])
    attrs = {"axes": call.axes("dim", "self"), "keepdims": _kept(call)}
    best = Form(f"reduce_{call.op}", [x], attrs)
    if "dim" not in call:
        return best
    return [best, Form(f"arg{call.op}", [x], {"axis": call.axis("dim", "self"), "keepdims": _kept(call)})]


@rules.add("aminmax")
def _aminmax(call: Call) -> Result:
    axes = call.axes("dim", "self")
    attrs = {"axes": axes, "keepdims": _kept(call)}
    return [Form(f"reduce_{which}", [call.value("self")], attrs) for which in ("min", "max")]


@rules.add("argmax", "argmin")
def _argmax(call: Call) -> Result:
    axis = None if call["dim"] is None else call.axis("dim", "self")
    if axis is None and call["keepdim"]:
        return None
    return Form(call.op, [call.value("self")], {"axis": axis, "keepdims": bool(call["keepdim"])})


@rules.add("var", "std", "var_mean", "std_mean")
def _spread(call: Call) -> Result:
    if "correction" in call:
        correction = 1 if call["correction"] is None else call["correction"]
    else:
        correction = int(call["unbiased"])
    attrs = {"axes": call.axes("dim", "self"), "keepdims": _kept(call)}
    spread = Form(f"reduce_{call.op[:3]}", [call.value("self")], {**attrs, "correction": correction})
    return [spread, Form("reduce_mean", [call.value("self")], attrs)] if call.op.endswith("mean") else spread


@rules.add("prims::var")
def _prims_var(call: Call) -> Result:
    attrs = {"axes": call.axes("dims", "inp"), "keepdims": False, "correction": call["correction"]}
    return Form("reduce_var", [call.value("inp")], attrs)


@rules.add("linalg_vector_norm", "norm")
def _norm(call: Call) -> Result:
    order = call["ord" if "ord" in call else "p"]
    x: Operand = call.real("self")
    attrs = {"axes": call.axes("dim", "self"), "keepdims": _kept(call)}
    if order in (1, 2, None):
        return Form("reduce_l1" if order == 1 else "reduce_l2", [x], attrs)
    if abs(order) == math.inf:
        return Form("reduce_max" if order > 0 else "reduce_min", [Form("abs", [x])], attrs)
    return None


@rules.add("count_nonzero")
def _count_nonzero(call: Call) -> Result:
    ones = Form("cast", [_truth(call)], {"to": call.dtype()})
    return Form("reduce_sum", [ones], {"axes": call.axes("dim", "self"), "keepdims": False})


@rules.add("cumsum", "cumprod")
def _cumulate(call: Call) -> Result:
    return (
        Form(call.op, [call.real("self")], {"axis": call.axis("dim", "self")}) if call.rank("self") else None
    )


@rules.add("topk")
def _topk(call: Call) -> Result:
    attrs = {
        "k": call["k"],
        "axis": call.axis("dim", "self"),
        "largest": call["largest"],
        "sorted": call["sorted"],
    }
    return Form("topk", [call.value("self")], attrs, outputs=2)


@rules.add("sort", "argsort")
def _sort(call: Call) -> Result:
    attrs = {"axis": call.axis("dim", "self"), "descending": call["descending"]}
    form = Form("sort", [call.value("self")], attrs, outputs=2)
    return [form[1]] if call.op == "argsort" else form


@rules.add("nonzero")
def _nonzero(call: Call) -> Result:
    return Form("nonzero", [call.value("self")], {"layout": "columns"})
