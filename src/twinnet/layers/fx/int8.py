"""Rules for the quantise and dequantise operators that `torch.ao` puts into exported programs."""

from __future__ import annotations

import torch

from twinnet.layers.fx.call import Call, Const, Form, Operand, Result, rules

__all__: list[str] = []

_NAMES = [
    f"quantized_decomposed::{verb}_per_{what}"
    for verb in ("quantize", "dequantize")
    for what in ("tensor", "channel")
]


@rules.add(*_NAMES)
def _quantize(call: Call) -> Result:
    verb = call.op.split("::")[1].split("_")[0]
    if call.op.endswith("channel"):
        scale: Operand = call.value("scales")
        zero: Operand = call.value("zero_points")
        axis = call.axis("axis", "input")
    elif isinstance(call.raw("scale"), float):
        scale = Const(torch.tensor(call["scale"], dtype=torch.float32), "scale")
        zero = Const(torch.tensor(call["zero_point"], dtype=torch.int32), "zero_point")
        axis = 1
    else:
        scale, zero, axis = call.value("scale"), call.value("zero_point"), 1
    if verb == "dequantize":
        return Form("dequantize_linear", [call.value("input"), scale, zero], {"axis": axis})
    attrs = {"axis": axis, "to": call.dtype(), "qmin": call["quant_min"], "qmax": call["quant_max"]}
    return Form("quantize_linear", [call.value("input"), scale, zero], attrs)
