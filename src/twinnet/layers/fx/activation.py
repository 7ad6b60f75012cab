"""Rules for activations and for softmax."""

from __future__ import annotations

import torch

from twinnet.layers.fx.call import Call, Form, Operand, Result, rules

__all__: list[str] = []

_PLAIN = {
    "silu": "swish",
    "mish": "mish",
    "hardswish": "hard_swish",
    "log_sigmoid": "log_sigmoid",
    "softsign": "softsign",
    "selu": "selu",
}


@rules.add(*_PLAIN)
def _plain(call: Call) -> Result:
    return Form(_PLAIN[call.op], [call.value("self")])


@rules.add("clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6")
def _clip(call: Call) -> Result:
    x = call.value("self")
    if call.op == "relu6":
        return Form("clip", [x], {"min": 0.0, "max": 6.0})
    if call.dtype() != call.dtype("self"):
        return None
    names = ("min_val", "max_val") if call.op == "hardtanh" else ("min", "max")
    bounds = [call.operand(name, exact=True) if name in call else None for name in names]
    return Form("clip", [x, *bounds])


@rules.add("leaky_relu")
def _leaky_relu(call: Call) -> Result:
    return Form("leaky_relu", [call.value("self")], {"alpha": float(call["negative_slope"])})


@rules.add("rrelu")
def _rrelu(call: Call) -> Result:
    if call["training"]:
        return None
    return Form("leaky_relu", [call.value("self")], {"alpha": (call["lower"] + call["upper"]) / 2})


@rules.add("prelu", "_prelu_kernel")
def _prelu(call: Call) -> Result:
    weight: Operand = call.value("weight")
    after = call.rank("self") - 2
    if call.op == "prelu" and call.shape("weight") and after > 0:
        weight = Form("reshape", [weight], {"shape": (*call.shape("weight"), *(1,) * after)})
    return Form("prelu", [call.value("self"), weight])


@rules.add("elu", "celu")
def _elu(call: Call) -> Result:
    if call.op == "elu" and (call["scale"] != 1 or call["input_scale"] != 1):
        return None
    return Form(call.op, [call.value("self")], {"alpha": float(call["alpha"])})


@rules.add("threshold")
def _threshold(call: Call) -> Result:
    x, limit = call.value("self"), call.operand("threshold", exact=True)
    return Form("where", [Form("greater", [x, limit]), x, call.operand("value", exact=True)])


@rules.add("hardshrink", "softshrink")
def _shrink(call: Call) -> Result:
    limit = float(call["lambd"])
    return Form(
        "shrink", [call.value("self")], {"lambd": limit, "bias": limit if call.op == "softshrink" else 0.0}
    )


@rules.add("hardsigmoid")
def _hard_sigmoid(call: Call) -> Result:
    return Form("hard_sigmoid", [call.value("self")], {"alpha": 1 / 6, "beta": 0.5})


@rules.add("gelu")
def _gelu(call: Call) -> Result:
    return Form("gelu", [call.value("self")], {"approximate": call["approximate"]})


@rules.add("softplus")
def _softplus(call: Call) -> Result:
    # Above `threshold` torch returns x itself; from 20 on (the default) that is the formula, rounded.
    if call["threshold"] < 20:
        return None
    return Form("softplus", [call.value("self")], {"beta": float(call["beta"])})


@rules.add("softmax", "_softmax", "special_softmax", "log_softmax", "_log_softmax", "special_log_softmax")
def _softmax(call: Call) -> Result:
    kind = "log_softmax" if "log_softmax" in call.op else "softmax"
    return Form(kind, [call.real("self")], {"axis": call.axis("dim", "self")})


@rules.add("glu")
def _glu(call: Call) -> Result:
    return Form("glu", [call.value("self")], {"axis": call.axis("dim", "self")})


@rules.add("binary_cross_entropy_with_logits")
def _binary_cross_entropy(call: Call) -> Result:
    x, target = call.value("self"), call.value("target")
    if call["reduction"] not in (0, 1, 2):
        return None
    one, logarithm = call.const("one", 1.0), Form("log_sigmoid", [x])
    if call.value("pos_weight") is not None:
        more = Form("mul", [Form("sub", [call.value("pos_weight"), one]), target])
        logarithm = Form("mul", [Form("add", [more, one]), logarithm])
    loss = Form("sub", [Form("mul", [Form("sub", [one, target]), x]), logarithm])
    if call.value("weight") is not None:
        loss = Form("mul", [loss, call.value("weight")])
    whole = {1: "reduce_mean", 2: "reduce_sum"}.get(call["reduction"])
    return loss if whole is None else Form(whole, [loss], {"keepdims": False})


@rules.add("dropout", "native_dropout", "feature_dropout", "alpha_dropout")
def _dropout(call: Call) -> Result:
    if call["train"] and call["p"]:
        return None
    name = "self" if "self" in call else "input"
    kept = Form("identity", [call.value(name)])
    if call.op != "native_dropout":
        return kept
    return [
        kept,
        Form("constant_of_shape", [], {"shape": call.shape(name), "value": True, "dtype": torch.bool}),
    ]
