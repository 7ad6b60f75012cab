"""Operators that map directly to a canonical kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from onnx import TensorProto

from twinnet.onnx.operators._node import Node, Translator, op
from twinnet.onnx.operators._tensors import dtype_from_onnx

_SAME = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Max", "Min", "Neg", "Abs", "Sqrt", "Reciprocal"),
    *("Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan"),
    *("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"),
    *("And", "Or", "Xor", "Not", "Where", "Equal", "Less", "Greater", "Round", "Floor", "Ceil", "Sign"),
    *("Relu", "Sigmoid", "Tanh", "Softsign", "Softplus", "Mish"),
    *("Identity", "Expand", "Tile", "Range", "Size"),
)
_PLAIN = {
    **{name: name.lower() for name in _SAME},
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
    "MatMulInteger": "matmul_integer",
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
    added = tuple(range(small, rank - axis))
    wide = node.emit("unsqueeze", [node.inputs[1]], [node.temp("aligned")], axes=added)
    node.emit(kind, [node.inputs[0], wide])


for _name in _PLAIN:
    op(_name)(_plain)


# ---- attributes only renamed: operator -> kind, {ONNX name: default} -------------------------------

_OURS = {
    "blocksize": "block",
    "block_size": "block",
    "detect_negative": "negative",
    "detect_positive": "positive",
    "epsilon": "eps",
    "kernel_shape": "kernel",
    "num_groups": "groups",
    "select_last_index": "select_last",
}
"""Attributes that have another name here."""

_RENAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
    "Shrink": ("shrink", {"bias": 0.0, "lambd": 0.5}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "Swish": ("swish", {"alpha": 1.0}),
    "Gelu": ("gelu", {"approximate": "none"}),
    "Clip": ("clip", {"min": None, "max": None}),
    "Mod": ("mod", {"fmod": 0}),
    "Concat": ("concat", {"axis": 1}),
    "Transpose": ("transpose", {"perm": None}),
    "Flatten": ("flatten", {"axis": 1}),
    "Squeeze": ("squeeze", {"axes": None}),
    "Unsqueeze": ("unsqueeze", {"axes": None}),
    "Slice": ("slice", {"starts": None, "ends": None, "axes": None}),
    "Gather": ("gather", {"axis": 0}),
    "GatherElements": ("gather_elements", {"axis": 0}),
    "GatherND": ("gather_nd", {"batch_dims": 0}),
    "Scatter": ("scatter_elements", {"axis": 0}),
    "ScatterElements": ("scatter_elements", {"axis": 0, "reduction": "none"}),
    "ScatterND": ("scatter_nd", {"reduction": "none"}),
    "DepthToSpace": ("depth_to_space", {"blocksize": None, "mode": "DCR"}),
    "SpaceToDepth": ("space_to_depth", {"blocksize": None, "mode": "DCR"}),
    "Trilu": ("trilu", {"upper": 1}),
    "Shape": ("shape", {"start": 0, "end": None}),
    "OneHot": ("one_hot", {"axis": -1}),
    "Compress": ("compress", {"axis": None}),
    "ReverseSequence": ("reverse_sequence", {"batch_axis": 1, "time_axis": 0}),
    "CenterCropPad": ("center_crop_pad", {"axes": None}),
    "CumSum": ("cumsum", {"exclusive": 0, "reverse": 0}),
    "CumProd": ("cumprod", {"exclusive": 0, "reverse": 0}),
    "ArgMax": ("argmax", {"axis": 0, "keepdims": 1, "select_last_index": 0}),
    "ArgMin": ("argmin", {"axis": 0, "keepdims": 1, "select_last_index": 0}),
    "TopK": ("topk", {"k": None, "axis": -1, "largest": 1}),
    "IsInf": ("isinf", {"detect_negative": 1, "detect_positive": 1}),
    "Einsum": ("einsum", {"equation": None}),
    "GlobalLpPool": ("global_lp_pool", {"p": 2}),
    "MaxUnpool": ("max_unpool", {"kernel_shape": None, "strides": None, "pads": None}),
    "Col2Im": ("fold", {"strides": None, "pads": None, "dilations": None}),
    "InstanceNormalization": ("instance_norm", {"epsilon": 1e-5}),
    "LayerNormalization": ("layer_norm", {"axis": -1, "epsilon": 1e-5}),
    "RMSNormalization": ("rms_norm", {"axis": -1, "epsilon": 1e-5}),
    "GroupNormalization": ("group_norm", {"num_groups": None, "epsilon": 1e-5}),
    "LpNormalization": ("lp_norm", {"axis": -1, "p": 2}),
    "MeanVarianceNormalization": ("mean_variance_norm", {"axes": (0, 2, 3)}),
    "LRN": ("lrn", {"size": None, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}),
    "AffineGrid": ("affine_grid", {"align_corners": 0}),
    "Unique": ("unique", {"axis": None, "sorted": 1}),
    "DequantizeLinear": ("dequantize_linear", {"axis": 1, "block_size": 0}),
}


def renamed(kind: str, attributes: Mapping[str, Any]) -> Translator:
    """A translator to one layer of `kind` with these attributes, given with their defaults."""

    def translate(node: Node) -> None:
        node.emit(
            kind, **{_OURS.get(name, name): node.get(name, default) for name, default in attributes.items()}
        )

    return translate


for _name, (_kind, _attributes) in _RENAMED.items():
    op(_name)(renamed(_kind, _attributes))


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
    raise ValueError("the bits of a float cannot be reinterpreted in float64")


def sub_byte(node: Node, i: int) -> bool:
    """Whether an operand has elements smaller than a byte, which are stored in bytes here."""
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
