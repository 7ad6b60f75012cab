"""Rules for convolutions, matrix products and attention."""

from __future__ import annotations

from twinnet.layers.fx.call import Call, Form, Operand, Result, rules

__all__ = ["batched"]


def batched(call: Call, name: str, spatial: int) -> tuple[Operand, bool]:
    """The operand with a batch axis, and whether one had to be put in front of it."""
    if call.rank(name) == spatial + 1:
        return Form("unsqueeze", [call.value(name)], {"axes": (0,)}), True
    return call.value(name), False


def per_axis(value: int | list[int], count: int) -> tuple[int, ...]:
    """One number per spatial axis; torch lets a single one stand for all."""
    found = (value,) if isinstance(value, int) else tuple(value)
    return found * count if len(found) == 1 else found


@rules.add(
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"
)
def _convolution(call: Call) -> Result:
    spatial = call.rank("weight") - 2
    x, alone = batched(call, "input", spatial)
    dilations = per_axis(call["dilation"], spatial)
    attrs = {
        "strides": per_axis(call["stride"], spatial),
        "dilations": dilations,
        "group": call["groups"],
    }
    padding = call["padding"]
    if isinstance(padding, str):
        reach = [d * (k - 1) for d, k in zip(dilations, call.shape("weight")[2:])]
        begins = tuple(n // 2 if padding == "same" else 0 for n in reach)
        ends = tuple(n - n // 2 if padding == "same" else 0 for n in reach)
        attrs["pads"] = begins + ends
    else:
        attrs["pads"] = per_axis(padding, spatial) * 2
    transposed = call.op.startswith("conv_transpose") or ("transposed" in call and call["transposed"])
    if transposed:
        attrs["output_padding"] = per_axis(call["output_padding"], spatial)
    kind = "conv_transpose" if transposed else "conv"
    form = Form(kind, [x, call.value("weight"), call.value("bias")], attrs)
    return Form("squeeze", [form], {"axes": (0,)}) if alone else form


@rules.add("linear")
def _linear(call: Call) -> Result:
    return Form("linear", [call.value("input"), call.value("weight"), call.value("bias")])


@rules.add("matmul", "mm", "bmm", "mv", "dot")
def _matmul(call: Call) -> Result:
    second = {"mm": "mat2", "bmm": "mat2", "mv": "vec", "dot": "tensor"}.get(call.op, "other")
    return Form("matmul", [call.value("self"), call.value(second)])


@rules.add("addmm")
def _addmm(call: Call) -> Result:
    inputs = [call.value("mat1"), call.value("mat2"), call.value("self")]
    return Form("gemm", inputs, {"alpha": float(call["alpha"]), "beta": float(call["beta"])})


@rules.add("baddbmm", "addmv")
def _scaled_sum(call: Call) -> Result:
    first, second = ("batch1", "batch2") if call.op == "baddbmm" else ("mat", "vec")
    product = Form("matmul", [call.value(first), call.value(second)], {"alpha": float(call["alpha"])})
    beta = call["beta"]
    if beta == 0:
        return product
    bias: Operand = call.value("self")
    return Form("add", [product, bias], {"alpha": beta} if beta != 1 else {})


@rules.add("einsum")
def _einsum(call: Call) -> Result:
    return (
        Form("einsum", call.values("tensors"), {"equation": call["equation"]})
        if call["path"] is None
        else None
    )


@rules.add("scaled_dot_product_attention")
def _attention(call: Call) -> Result:
    rank = call.rank("query")
    if call["dropout_p"] or rank not in (3, 4) or {call.rank("key"), call.rank("value")} != {rank}:
        return None

    def heads(name: str) -> Operand:
        value = call.value(name)
        if value is None or rank == 4 or call.rank(name) < 3:
            return value
        return Form("unsqueeze", [value], {"axes": (1,)})

    attrs = {"scale": call["scale"], "is_causal": call["is_causal"]}
    form = Form("attention", [heads(name) for name in ("query", "key", "value", "attn_mask")], attrs)
    return form if rank == 4 else Form("squeeze", [form], {"axes": (1,)})
