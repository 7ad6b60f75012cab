"""Rules for complex numbers. Other operators on them run unchanged, in double precision."""

from __future__ import annotations

import torch
from torch.fx import Node

from twinnet.layers.fx.call import Call, Form, Out, Result, rules
from twinnet.torch_versions import pytree

__all__ = ["fit_for_complex", "is_complex"]

_FIT = {
    "identity", "reshape", "transpose", "squeeze", "unsqueeze", "expand", "tile", "concat", "stack", "split",
    "slice", "select", "gather", "index", "flip", "roll", "view_as_real", "view_as_complex", "conj", "modulus",
    "add", "sub", "mul",
}  # fmt: skip
"""Kinds that mean the same for complex numbers as for real ones, bound included."""


@rules.add("view_as_real", "view_as_real_copy")
def _view_as_real(call: Call) -> Result:
    return Form("view_as_real", [call.value("self")])


@rules.add("view_as_complex", "view_as_complex_copy")
def _view_as_complex(call: Call) -> Result:
    return Form("view_as_complex", [call.value("self")])


@rules.add("_conj", "_conj_physical", "conj_physical", "conj")
def _conj(call: Call) -> Result:
    return Form("conj" if call.dtype("self").is_complex else "identity", [call.value("self")])


@rules.add("real", "imag")
def _part(call: Call) -> Result:
    if not call.dtype("self").is_complex:
        return Form("identity", [call.value("self")]) if call.op == "real" else None
    parts = Form("view_as_real", [call.value("self")])
    return Form("select", [parts], {"axis": -1, "index": 0 if call.op == "real" else 1})


def is_complex(node: Node) -> bool:
    """Whether a call reads or makes complex numbers."""
    results = pytree.tree_leaves(node.meta.get("val"))
    given = [n.meta.get("val") for n in node.all_input_nodes]
    return any(isinstance(v, torch.Tensor) and v.is_complex() for v in (*results, *given))


def fit_for_complex(found: Out) -> bool:
    """Whether a form can be evaluated and bounded for complex numbers."""
    inner = [o[0] if isinstance(o, Form) else o for o in found.form.inputs]
    return found.form.kind in _FIT and all(fit_for_complex(o) for o in inner if isinstance(o, Out))
