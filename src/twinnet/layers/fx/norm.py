"""Rules for normalisation."""

from __future__ import annotations

import torch

from twinnet.layers.fx.call import Call, Form, Result, rules

__all__: list[str] = []


@rules.add("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm", "cudnn_batch_norm")
def _batch_norm(call: Call) -> Result:
    if call.get("training"):
        return None
    if call.value("running_mean") is None:
        return None
    operands = [call.value(name) for name in ("input", "weight", "bias", "running_mean", "running_var")]
    return Form("batch_norm", operands, {"eps": call["eps"]})


@rules.add("layer_norm", "native_layer_norm")
def _layer_norm(call: Call) -> Result:
    operands = [call.value("input"), call.value("weight"), call.value("bias")]
    attrs = {"axis": call.rank("input") - len(call["normalized_shape"]), "eps": call["eps"]}
    return Form("layer_norm", operands, attrs, outputs=3 if call.op.startswith("native") else 1)


@rules.add("rms_norm", "_fused_rms_norm")
def _rms_norm(call: Call) -> Result:
    eps = call["eps"] if call["eps"] is not None else torch.finfo(call.dtype("input")).eps
    attrs = {"axis": call.rank("input") - len(call["normalized_shape"]), "eps": eps}
    return Form("rms_norm", [call.value("input"), call.value("weight")], attrs)


@rules.add("instance_norm")
def _instance_norm(call: Call) -> Result:
    if not call["use_input_stats"]:
        names = ("input", "weight", "bias", "running_mean", "running_var")
        return Form("batch_norm", [call.value(name) for name in names], {"eps": call["eps"]})
    operands = [call.value(name) for name in ("input", "weight", "bias")]
    return Form("instance_norm", operands, {"eps": call["eps"]})


@rules.add("group_norm", "native_group_norm")
def _group_norm(call: Call) -> Result:
    operands = [call.value(name) for name in ("input", "weight", "bias")]
    return Form(
        "group_norm",
        operands,
        {"groups": call["num_groups" if "num_groups" in call else "group"], "eps": call["eps"]},
    )


@rules.add("cosine_similarity")
def _cosine_similarity(call: Call) -> Result:
    """Both sides are scaled to length 1 (never divided by less than eps), then multiplied and summed."""
    if call.rank("x1") != call.rank("x2"):
        return None
    axis = call.axis("dim", "x1")

    def scaled(name: str) -> Form:
        x = call.value(name)
        length = Form("reduce_l2", [x], {"axes": (axis,), "keepdims": True})
        return Form("div", [x, Form("clip", [length, call.const("eps", call["eps"])])])

    product = Form("mul", [scaled("x1"), scaled("x2")])
    return Form("reduce_sum", [product], {"axes": (axis,), "keepdims": False})
