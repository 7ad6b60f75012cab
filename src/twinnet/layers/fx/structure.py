"""Rules for operators that only move values: views, joins, splits, padding, casts."""

from __future__ import annotations

from typing import Any

import torch

from twinnet.layers.fx.call import Call, Const, Form, Operand, Result, rules

__all__: list[str] = []


@rules.add(
    "alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "view_as", "resolve_conj"
)
def _identity(call: Call) -> Result:
    if call.op == "view_as":
        return _to_result_shape(call, "self")
    return Form("identity", [call.value("self")])


@rules.add("_to_copy", "to", "type_as", "_cast_Float", "float", "double", "half")
def _cast(call: Call) -> Result:
    x = call.value("self")
    return (
        Form("identity", [x])
        if call.dtype() == call.dtype("self")
        else Form("cast", [x], {"to": call.dtype()})
    )


@rules.add("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_copy", "_reshape_alias")
def _reshape(call: Call) -> Result:
    return (
        _to_result_shape(call, "self") if call.dtype() == call.dtype("self") else None
    )  # view(dtype): other bits


def _to_result_shape(call: Call, name: str) -> Form:
    return Form("reshape", [call.value(name)], {"shape": call.shape(), "allowzero": True})


@rules.add("squeeze", "unsqueeze")
def _squeeze(call: Call) -> Result:
    """All forms of `squeeze`, which leaves alone an axis that is not 1."""
    x = call.value("self")
    if call.op == "unsqueeze":
        return Form("unsqueeze", [x], {"axes": (call["dim"] % (call.rank("self") + 1),)})
    axes = [a for a in call.axes("dim", "self") if call.rank("self") and call.shape("self")[a] == 1]
    return Form("squeeze", [x], {"axes": tuple(axes)}) if axes else Form("identity", [x])


@rules.add("expand", "expand_as", "broadcast_to", "expand_copy")
def _expand(call: Call) -> Result:
    return Form("expand", [call.value("self")], {"shape": call.shape()})


@rules.add("repeat", "tile")
def _tile(call: Call) -> Result:
    repeats = list(call["repeats" if call.op == "repeat" else "dims"])
    x, rank = call.value("self"), call.rank("self")
    repeats = [1] * (rank - len(repeats)) + repeats
    if len(repeats) > rank:
        shape = (1,) * (len(repeats) - rank) + call.shape("self")
        return Form(
            "tile", [Form("reshape", [x], {"shape": shape, "allowzero": True})], {"repeats": tuple(repeats)}
        )
    return Form("tile", [x], {"repeats": tuple(repeats)})


@rules.add("permute", "permute_copy")
def _permute(call: Call) -> Result:
    return Form("transpose", [call.value("self")], {"perm": call.axes("dims", "self")})


@rules.add("transpose", "swapaxes", "swapdims", "t", "numpy_T", "mT", "adjoint")
def _transpose(call: Call) -> Result:
    rank = call.rank("self")
    perm = list(range(rank))
    if call.op == "numpy_T" or (call.op == "t" and rank == 2):
        perm.reverse()
    elif call.op != "t":
        names = {"swapaxes": ("axis0", "axis1")}.get(call.op, ("dim0", "dim1"))
        a, b = (call.axis(n, "self") for n in names) if names[0] in call else (rank - 2, rank - 1)
        perm[a], perm[b] = perm[b], perm[a]
    return Form("transpose", [call.value("self")], {"perm": tuple(perm)})


@rules.add("movedim", "moveaxis")
def _movedim(call: Call) -> Result:
    source, target = call.axes("source", "self"), call.axes("destination", "self")
    perm = [a for a in range(call.rank("self")) if a not in source]
    for to, axis in sorted(zip(target, source)):
        perm.insert(to, axis)
    return Form("transpose", [call.value("self")], {"perm": tuple(perm)})


@rules.add("cat", "concat", "concatenate", "stack")
def _concat(call: Call) -> Result:
    kind = "stack" if call.op == "stack" else "concat"
    return Form(kind, call.values("tensors"), {"axis": call["dim"] % max(call.rank(), 1)})


@rules.add("hstack", "vstack", "row_stack")
def _stack_along(call: Call) -> Result:
    """Joins along an axis that is there already; lower ranks get new axes first and stay opaque."""
    ranks = {node.meta["val"].dim() for node in call.raw("tensors")}
    axis = 1 if call.op == "hstack" else 0
    return Form("concat", call.values("tensors"), {"axis": axis}) if min(ranks) > 1 else None


@rules.add("meshgrid")
def _meshgrid(call: Call) -> Result:
    shape = call.shape()
    order = list(range(len(shape)))
    if call.get("indexing") == "xy":
        order[:2] = order[1::-1]
    grids: list[Form] = []
    for axis, value in zip(order, call.values("tensors")):
        line = Form("reshape", [value], {"shape": tuple(-1 if a == axis else 1 for a in range(len(shape)))})
        grids.append(Form("expand", [line], {"shape": shape}))
    return grids


@rules.add("broadcast_tensors")
def _broadcast(call: Call) -> Result:
    return [Form("expand", [value], {"shape": call.shape()}) for value in call.values("tensors")]


@rules.add("split", "split_with_sizes", "chunk", "tensor_split", "split_copy", "split_with_sizes_copy")
def _split(call: Call) -> Result:
    axis = call.axis("dim", "self")
    sizes = tuple(part.shape[axis] for part in call.node.meta["val"])
    if not all(isinstance(size, int) for size in sizes):
        return None
    return Form("split", [call.value("self")], {"axis": axis, "sizes": sizes}, outputs=len(sizes))


@rules.add("unbind", "unbind_copy")
def _unbind(call: Call) -> Result:
    axis = call.axis("dim", "self")
    return [
        Form("select", [call.value("self")], {"axis": axis, "index": i})
        for i in range(call.shape("self")[axis])
    ]


@rules.add("slice", "slice_copy", "narrow")
def _slice(call: Call) -> Result:
    axis = call.axis("dim", "self")
    if call.op == "narrow":
        start, end, step = call["start"], call["start"] + call["length"], 1
    else:
        start, end, step = call["start"] or 0, call["end"], call["step"]
    size = call.shape("self")[axis]
    start, end, _ = slice(start, end, 1).indices(size)
    attrs = {"starts": (start,), "ends": (max(start, end),), "axes": (axis,), "steps": (step,)}
    return Form("slice", [call.value("self")], attrs)


@rules.add("select", "select_copy")
def _select(call: Call) -> Result:
    axis = call.axis("dim", "self")
    index = call["index"] % call.shape("self")[axis]
    return Form("select", [call.value("self")], {"axis": axis, "index": index})


@rules.add("copy")
def _copy(call: Call) -> Result:
    source: Operand = call.value("src")
    if call.dtype("src") != call.dtype():
        source = Form("cast", [source], {"to": call.dtype()})
    return Form("expand", [source], {"shape": call.shape()})


@rules.add(
    "pad", "constant_pad_nd",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d",
)  # fmt: skip
def _pad(call: Call) -> Result:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    given = call["pad" if "pad" in call else "padding"]
    if call.op == "pad":
        mode = modes[call["mode"]]
    else:
        mode = {"c": "constant", "ref": "reflect", "rep": "edge"}[call.op[: 1 if call.op[0] == "c" else 3]]
    count = len(given) // 2
    axes = tuple(range(call.rank("self") - count, call.rank("self")))
    begins, ends = given[0::2][::-1], given[1::2][::-1]  # torch counts from the last axis
    attrs: dict[str, Any] = {"mode": mode, "pads": (*begins, *ends), "axes": axes}
    if mode == "constant":
        attrs["value"] = torch.tensor(call["value"] or 0, dtype=call.dtype()).item()
    return Form("pad", [call.value("self")], attrs)


@rules.add("pixel_shuffle")
def _pixel_shuffle(call: Call) -> Result:
    if call.rank("self") != 4:
        return None
    return Form("depth_to_space", [call.value("self")], {"block": call["upscale_factor"], "mode": "CRD"})


@rules.add("pixel_unshuffle")
def _pixel_unshuffle(call: Call) -> Result:
    if call.rank("self") != 4:
        return None
    return Form("space_to_depth", [call.value("self")], {"block": call["downscale_factor"], "mode": "CRD"})


@rules.add("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(call: Call) -> Result:
    n, c, *rest = call.shape("self")
    groups = call["groups"]
    apart = Form(
        "reshape", [call.value("self")], {"shape": (n, groups, c // groups, *rest), "allowzero": True}
    )
    swapped = Form("transpose", [apart], {"perm": (0, 2, 1, *range(3, 3 + len(rest)))})
    return Form("reshape", [swapped], {"shape": (n, c, *rest), "allowzero": True})


@rules.add("flip")
def _flip(call: Call) -> Result:
    return Form("flip", [call.value("self")], {"axes": call.axes("dims", "self")})


@rules.add("roll")
def _roll(call: Call) -> Result:
    x, shifts = call.value("self"), tuple(call["shifts"])
    if call["dims"]:
        return Form("roll", [x], {"shifts": shifts, "axes": call.axes("dims", "self")})
    flat = Form("roll", [Form("reshape", [x], {"shape": (-1,)})], {"shifts": shifts, "axes": (0,)})
    return Form("reshape", [flat], {"shape": call.shape(), "allowzero": True})


@rules.add("tril", "triu")
def _trilu(call: Call) -> Result:
    return Form("trilu", [call.value("self")], {"upper": call.op == "triu", "k": call["diagonal"]})


@rules.add("im2col")
def _unfold(call: Call) -> Result:
    if call.rank("self") != 4:
        return None
    attrs = {"kernel": tuple(call["kernel_size"]), "strides": tuple(call["stride"])}
    return Form(
        "unfold",
        [call.value("self")],
        attrs | {"pads": tuple(call["padding"]) * 2, "dilations": tuple(call["dilation"])},
    )


@rules.add("col2im")
def _fold(call: Call) -> Result:
    if call.rank("self") != 3:
        return None
    attrs = {
        "size": tuple(call["output_size"]),
        "block": tuple(call["kernel_size"]),
        "strides": tuple(call["stride"]),
    }
    attrs |= {"pads": tuple(call["padding"]) * 2, "dilations": tuple(call["dilation"])}
    return Form("fold", [call.value("self")], attrs)


@rules.add("unfold", "as_strided", "diagonal", "rot90", "repeat_interleave", "diagonal_copy", "unfold_copy")
def _moved(call: Call) -> Result:
    """Anything else that copies elements: run it once on their positions, and gather by what comes out."""
    size = int(torch.Size(call.shape("self")).numel())
    target = call.node.target
    tensors = call.node.all_input_nodes
    if len(tensors) != 1 or not callable(target):
        return None  # repeats given as a tensor are data
    positions = torch.arange(size).reshape(call.shape("self"))
    args = tuple(positions if argument is tensors[0] else argument for argument in call.node.args)
    moved = target(*args, **call.node.kwargs)
    flat = Form("reshape", [call.value("self")], {"shape": (-1,)})
    return Form("gather", [flat, Const(moved.contiguous(), "positions")], {"axis": 0})
