"""Rules for tensors made from nothing but a shape."""

from __future__ import annotations

import torch

from twinnet.layers.fx.call import Call, Const, Form, Operand, Result, rules

__all__: list[str] = []

_ZERO = [
    "zeros",
    "zeros_like",
    "new_zeros",
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
    "zero",
]
_ONE = ["ones", "ones_like", "new_ones"]


@rules.add(*_ZERO, *_ONE, "full", "full_like", "new_full", "scalar_tensor")
def _filled(call: Call) -> Result:
    """Uninitialised memory counts as zeros: what is read from it later has been written by then."""
    if call.op in _ZERO or call.op in _ONE:
        value: float = 0 if call.op in _ZERO else 1
    else:
        value = call["s" if call.op == "scalar_tensor" else "fill_value"]
    dtype = call.dtype()
    value = torch.tensor(value, dtype=dtype).item()
    return Form("constant_of_shape", [], {"shape": call.shape(), "value": value, "dtype": dtype})


@rules.add("fill")
def _fill(call: Call) -> Result:
    value = call.operand("value", exact=True)
    if isinstance(value, Const):
        value = Const(value.tensor.to(call.dtype()), value.label)
    elif call.dtype("value") != call.dtype():
        value = Form("cast", [value], {"to": call.dtype()})
    return Form("expand", [value], {"shape": call.shape()})


@rules.add("arange")
def _arange(call: Call) -> Result:
    if call.dtype().is_floating_point:
        return _computed(call)  # its steps are rounded
    start, step = call.get("start", 0), call.get("step", 1)
    operands: list[Operand] = [
        Const(torch.tensor(number, dtype=call.dtype()), label)
        for label, number in (("start", start), ("end", call["end"]), ("step", step))
    ]
    return Form("range", operands, {"dtype": call.dtype()})


@rules.add("eye", "linspace", "tril_indices", "triu_indices")
def _computed(call: Call) -> Result:
    """Tables that never change: kept as the program computes them."""
    target = call.node.target
    if call.node.all_input_nodes or not callable(target):
        return None
    return Form("identity", [Const(target(*call.node.args, **call.node.kwargs), "value")])
