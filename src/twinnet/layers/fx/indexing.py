"""Rules for gathering, scattering and index assignment."""

from __future__ import annotations

import torch

from twinnet.layers.fx.call import Call, Const, Form, Operand, Result, rules

__all__: list[str] = []


@rules.add("embedding")
def _embedding(call: Call) -> Result:
    return Form("gather", [call.value("weight"), call.value("indices")], {"axis": 0})


@rules.add("index_select")
def _index_select(call: Call) -> Result:
    if call.rank("self") == 0 or call.rank("index") == 0:
        return None
    return Form("gather", [call.value("self"), call.value("index")], {"axis": call.axis("dim", "self")})


@rules.add("gather")
def _gather(call: Call) -> Result:
    """torch takes the leading part where the index is smaller than the data; so does the canonical layer."""
    return Form(
        "gather_elements", [call.value("self"), call.value("index")], {"axis": call.axis("dim", "self")}
    )


@rules.add("index")
def _index(call: Call) -> Result:
    """A mask is replaced by the indices of its true elements, one index tensor per axis."""
    dims: list[int] = []
    operands: list[Operand] = []
    axis = 0
    for node, value in zip(call.raw("indices"), call.values("indices")):
        meta = None if node is None else node.meta["val"]
        if meta is not None and meta.dtype in (torch.bool, torch.uint8):
            places = Form("nonzero", [value], {"layout": "columns"})
            for column in range(meta.dim()):
                dims.append(axis + column)
                operands.append(Form("select", [places], {"axis": 1, "index": column}))
            axis += meta.dim()
            continue
        if meta is not None:
            dims.append(axis)
            operands.append(value)
        axis += 1
    return Form("index", [call.value("self"), *operands], {"dims": tuple(dims)})


@rules.add("index_put", "_unsafe_index_put")
def _index_put(call: Call) -> Result:
    """One mask and one number become `where`; integer indices of the leading axes become a scatter."""
    nodes = call.node.args[1]
    assert isinstance(nodes, (list, tuple))
    if any(node is None for node in nodes):
        return None
    values = call.values("indices")
    kinds = {node.meta["val"].dtype for node in nodes}  # type: ignore[union-attr]
    if kinds == {torch.bool}:
        if len(values) != 1 or call["accumulate"] or call.shape("values") not in ((), (1,)):
            return None
        mask: Operand = values[0]
        rank = nodes[0].meta["val"].dim()  # type: ignore[union-attr]
        if rank < call.rank("self"):
            shape = nodes[0].meta["val"].shape  # type: ignore[union-attr]
            shape = (*shape, *(1,) * (call.rank("self") - rank))
            mask = Form("reshape", [mask], {"shape": shape, "allowzero": True})
        return Form("where", [mask, call.value("values"), call.value("self")])
    if torch.bool in kinds:
        return None
    at = torch.broadcast_shapes(*(node.meta["val"].shape for node in nodes))  # type: ignore[union-attr]
    columns = [Form("expand", [value], {"shape": tuple(at)}) for value in values]
    indices = Form("stack", columns, {"axis": len(at)})
    updates = Form("expand", [call.value("values")], {"shape": (*at, *call.shape("self")[len(values) :])})
    reduction = "add" if call["accumulate"] else "none"
    return Form("scatter_nd", [call.value("self"), indices, updates], {"reduction": reduction})


@rules.add("select_scatter", "slice_scatter")
def _window_scatter(call: Call) -> Result:
    """A window of an axis is replaced: a scatter, with positions that are a view and take no memory."""
    axis, size = call.axis("dim", "self"), call.shape("self")[call.axis("dim", "self")]
    source: Operand = call.value("src")
    shape = list(call.shape("self"))
    if call.op == "select_scatter":
        positions = torch.tensor([call["index"] % size])
        source = Form("unsqueeze", [source], {"axes": (axis,)})
    else:
        positions = torch.arange(size)[call["start"] : call["end"] : call["step"]]
    shape[axis] = len(positions)
    if call.op == "slice_scatter" and call.shape("src") != tuple(shape):
        source = Form("expand", [source], {"shape": tuple(shape)})
    positions = positions.reshape([-1 if a == axis else 1 for a in range(len(shape))]).expand(shape)
    return Form(
        "scatter_elements", [call.value("self"), Const(positions, "positions"), source], {"axis": axis}
    )


@rules.add("scatter", "scatter_add", "scatter_reduce")
def _scatter(call: Call) -> Result:
    axis, index = call.axis("dim", "self"), call.value("index")
    if call.op == "scatter_reduce":
        names = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
        reduction = names.get(call["reduce"]) if call["include_self"] else None
    else:
        reduce = call.get("reduce", None)
        reduction = (
            "add" if call.op == "scatter_add" else {None: "none", "add": "add", "multiply": "mul"}[reduce]
        )
    if reduction is None:
        return None
    if "src" in call:
        updates: Operand = call.value("src")
        if call.shape("src") != call.shape("index"):
            ends = call.shape("index")
            window = {"starts": (0,) * len(ends), "ends": ends, "axes": tuple(range(len(ends)))}
            updates = Form("slice", [updates], window)
    else:
        number = Const(torch.tensor(call["value"], dtype=call.dtype()), "value")
        updates = Form("expand", [number], {"shape": call.shape("index")})
    return Form(
        "scatter_elements", [call.value("self"), index, updates], {"axis": axis, "reduction": reduction}
    )


@rules.add("one_hot")
def _one_hot(call: Call) -> Result:
    if call["num_classes"] < 0:
        return None
    values = Const(torch.tensor([0, 1]), "values")
    return Form("one_hot", [call.value("self"), None, values], {"depth": call["num_classes"], "axis": -1})
