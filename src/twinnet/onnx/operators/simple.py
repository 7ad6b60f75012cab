"""Operators that are a canonical kind under another name."""

from __future__ import annotations

from typing import Any

import torch
from onnx import TensorProto

from twinnet.onnx.operators._node import Node, op
from twinnet.onnx.operators._tensors import dtype_from_onnx

_PLAIN = {
    **{
        name: name.lower()
        for name in [
            "Sub",
            "Mul",
            "Div",
            "Pow",
            "Sum",
            "Mean",
            "Neg",
            "Abs",
            "Sqrt",
            "Reciprocal",
            "Exp",
            "Log",
            "Sin",
            "Cos",
            "Tan",
            "Asin",
            "Acos",
            "Atan",
            "Sinh",
            "Cosh",
            "Asinh",
            "Acosh",
            "Atanh",
            "Erf",
            "And",
            "Or",
            "Xor",
            "Not",
            "Where",
            "Relu",
            "Sigmoid",
            "Tanh",
            "Softsign",
            "Softplus",
            "Mish",
            "Identity",
            "Expand",
            "Tile",
            "Equal",
            "Less",
            "Greater",
            "Round",
            "Floor",
            "Ceil",
            "Sign",
            "Range",
            "Size",
            "Add",
            "Max",
            "Min",
        ]
    },
    "LessOrEqual": "less_equal",
    "GreaterOrEqual": "greater_equal",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "BitwiseNot": "bitwise_not",
    "HardSwish": "hard_swish",
    "PRelu": "prelu",
    "IsNaN": "isnan",
    "NonZero": "nonzero",
    "GlobalAveragePool": "global_average_pool",
    "GlobalMaxPool": "global_max_pool",
    "MatMul": "matmul",
    "DynamicQuantizeLinear": "dynamic_quantize_linear",
}


def _plain(node: Node) -> None:
    kind = _PLAIN[node.op]
    if node.get("broadcast") and node.get("axis") is not None and len(node.inputs) == 2:
        _old_broadcast(node, kind)
    else:
        node.emit(kind)


def _old_broadcast(node: Node, kind: str) -> None:
    """Before opset 7 the second operand was aligned at an axis."""
    rank, small = node.rank(0), node.rank(1)
    if rank is None or small is None:
        raise ValueError("broadcast along an axis needs known ranks")
    axis = node.get("axis") % rank
    added = tuple(range(small, small + rank - axis - small))
    wide = node.emit("unsqueeze", [node.inputs[1]], [node.temp("aligned")], axes=added)
    node.emit(kind, [node.inputs[0], wide])


for _name in _PLAIN:
    op(_name)(_plain)


# ---- attributes only renamed: operator -> kind, {ONNX name: (our name, default)} -------------------

_RENAMED: dict[str, tuple[str, dict[str, tuple[str, Any]]]] = {
    "LeakyRelu": ("leaky_relu", {"alpha": ("alpha", 0.01)}),
    "Elu": ("elu", {"alpha": ("alpha", 1.0)}),
    "Celu": ("celu", {"alpha": ("alpha", 1.0)}),
    "Selu": (
        "selu",
        {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)},
    ),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": ("alpha", 1.0)}),
    "Shrink": ("shrink", {"bias": ("bias", 0.0), "lambd": ("lambd", 0.5)}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "Swish": ("swish", {"alpha": ("alpha", 1.0)}),
    "Gelu": ("gelu", {"approximate": ("approximate", "none")}),
    "Mod": ("mod", {"fmod": ("fmod", 0)}),
    "Concat": ("concat", {"axis": ("axis", 1)}),
    "Transpose": ("transpose", {"perm": ("perm", None)}),
    "Flatten": ("flatten", {"axis": ("axis", 1)}),
    "Gather": ("gather", {"axis": ("axis", 0)}),
    "GatherElements": ("gather_elements", {"axis": ("axis", 0)}),
    "GatherND": ("gather_nd", {"batch_dims": ("batch_dims", 0)}),
    "Scatter": ("scatter_elements", {"axis": ("axis", 0)}),
    "ScatterElements": ("scatter_elements", {"axis": ("axis", 0), "reduction": ("reduction", "none")}),
    "ScatterND": ("scatter_nd", {"reduction": ("reduction", "none")}),
    "DepthToSpace": ("depth_to_space", {"blocksize": ("block", None), "mode": ("mode", "DCR")}),
    "SpaceToDepth": ("space_to_depth", {"blocksize": ("block", None), "mode": ("mode", "DCR")}),
    "Trilu": ("trilu", {"upper": ("upper", 1)}),
    "Shape": ("shape", {"start": ("start", 0), "end": ("end", None)}),
    "OneHot": ("one_hot", {"axis": ("axis", -1)}),
    "Compress": ("compress", {"axis": ("axis", None)}),
    "ReverseSequence": ("reverse_sequence", {"batch_axis": ("batch_axis", 1), "time_axis": ("time_axis", 0)}),
    "CenterCropPad": ("center_crop_pad", {"axes": ("axes", None)}),
    "CumSum": ("cumsum", {"exclusive": ("exclusive", 0), "reverse": ("reverse", 0)}),
    "CumProd": ("cumprod", {"exclusive": ("exclusive", 0), "reverse": ("reverse", 0)}),
    "ArgMax": (
        "argmax",
        {"axis": ("axis", 0), "keepdims": ("keepdims", 1), "select_last_index": ("select_last", 0)},
    ),
    "ArgMin": (
        "argmin",
        {"axis": ("axis", 0), "keepdims": ("keepdims", 1), "select_last_index": ("select_last", 0)},
    ),
    "IsInf": ("isinf", {"detect_negative": ("negative", 1), "detect_positive": ("positive", 1)}),
    "Einsum": ("einsum", {"equation": ("equation", None)}),
    "GlobalLpPool": ("global_lp_pool", {"p": ("p", 2)}),
    "InstanceNormalization": ("instance_norm", {"epsilon": ("eps", 1e-5)}),
    "LayerNormalization": ("layer_norm", {"axis": ("axis", -1), "epsilon": ("eps", 1e-5)}),
    "RMSNormalization": ("rms_norm", {"axis": ("axis", -1), "epsilon": ("eps", 1e-5)}),
    "GroupNormalization": ("group_norm", {"num_groups": ("groups", None), "epsilon": ("eps", 1e-5)}),
    "LpNormalization": ("lp_norm", {"axis": ("axis", -1), "p": ("p", 2)}),
    "MeanVarianceNormalization": ("mean_variance_norm", {"axes": ("axes", (0, 2, 3))}),
    "LRN": (
        "lrn",
        {"size": ("size", None), "alpha": ("alpha", 1e-4), "beta": ("beta", 0.75), "bias": ("bias", 1.0)},
    ),
    "AffineGrid": ("affine_grid", {"align_corners": ("align_corners", 0)}),
    "Unique": ("unique", {"axis": ("axis", None), "sorted": ("sorted", 1)}),
}


def _renamed(node: Node) -> None:
    kind, names = _RENAMED[node.op]
    node.emit(kind, **{ours: node.get(theirs, default) for theirs, (ours, default) in names.items()})


for _name in _RENAMED:
    op(_name)(_renamed)


# ---- small differences -----------------------------------------------------------------------------


@op("BitShift")
def _bit_shift(node: Node) -> None:
    node.emit("bit_shift", direction=node.get("direction", "LEFT").lower())


@op("Cast")
def _cast(node: Node) -> None:
    node.emit("cast", to=target_type(node.get("to")))


_COARSE = {TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ}
_COARSE |= {TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ}


@op("CastLike")
def _cast_like(node: Node) -> None:
    to = node.dtype(node.input(1)) or node.dtype(node.outputs[0])
    if to is None:
        raise ValueError("the type to cast to is not declared")
    if to.itemsize == 1 and to not in (torch.bool, torch.int8, torch.uint8):
        raise NotImplementedError("a cast to eight bits")
    if to in (torch.int8, torch.uint8) and sub_byte(node, 1):
        raise NotImplementedError("a cast to less than a byte")
    node.emit("cast", [node.inputs[0]], to=to)


@op("BitCast")
def _bit_cast(node: Node) -> None:
    raise ValueError("bits of floats are rounded bits")


def sub_byte(node: Node, i: int) -> bool:
    """Whether an operand is declared with elements smaller than a byte, which live in bytes here."""
    graph = node.scope.model.graph
    for item in (*graph.initializer, *graph.input, *graph.value_info):
        if item.name == node.input(i):
            code = item.data_type if isinstance(item, TensorProto) else item.type.tensor_type.elem_type
            return code not in _WHOLE
    return False


_WHOLE = {
    code
    for code in TensorProto.DataType.values()
    if dtype_from_onnx(code) is not None and code not in (TensorProto.INT4, TensorProto.UINT4)
}


def target_type(code: Any) -> torch.dtype:
    """The torch type of a `to` attribute; an error if torch has none."""
    dtype = dtype_from_onnx(code)
    if dtype is None or code in _COARSE:
        raise ValueError(f"element type {code} has no counterpart")
    return dtype


@op("EyeLike")
def _eye_like(node: Node) -> None:
    code = node.get("dtype")
    node.emit("eye_like", k=node.get("k", 0), dtype=None if code is None else target_type(code))


@op("ConstantOfShape")
def _constant_of_shape(node: Node) -> None:
    value = node.get("value")
    if value is None:
        node.emit("constant_of_shape", value=0.0, dtype=torch.float32)
    else:
        node.emit("constant_of_shape", value=value.reshape(-1)[0].item(), dtype=value.dtype)


@op("Dropout")
def _dropout(node: Node) -> None:
    training = node.constant(2)
    if node.input(2) is not None and (training is None or bool(training)):
        raise ValueError("dropout that may be in training mode is random")
    node.emit("identity", [node.inputs[0]], node.outputs[:1])
    if len(node.outputs) > 1:
        shape = node.emit("shape", [node.inputs[0]], [node.temp("shape")])
        node.emit("constant_of_shape", [shape], [node.outputs[1]], value=True, dtype=torch.bool)


@op("GridSample")
def _grid_sample(node: Node) -> None:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        node.get("mode", "linear"), node.get("mode", "linear")
    )
    node.emit(
        "grid_sample",
        mode=mode,
        padding=node.get("padding_mode", "zeros"),
        align_corners=bool(node.get("align_corners", 0)),
    )


@op("TopK")
def _topk(node: Node) -> None:
    node.emit("topk", k=node.get("k"), axis=node.get("axis", -1), largest=node.get("largest", 1))


@op("LogSoftmax", "Softmax", "Hardmax")
def _softmax(node: Node) -> None:
    kind = {"LogSoftmax": "log_softmax", "Softmax": "softmax", "Hardmax": "hardmax"}[node.op]
    axis = node.get("axis", -1 if node.version >= 13 else 1)
    rank = node.rank()
    if node.version >= 13 or axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        node.emit(kind, axis=axis if node.version >= 13 else -1)
        return
    # before opset 13 all axes from `axis` on were one
    shape = node.emit("shape", [node.inputs[0]], [node.temp("shape")])
    flat = node.emit("flatten", [node.inputs[0]], [node.temp("flat")], axis=axis)
    made = node.emit(kind, [flat], [node.temp("rows")], axis=-1)
    node.emit("reshape", [made, shape], allowzero=True)
