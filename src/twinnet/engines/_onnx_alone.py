"""Prepare an ONNX model for a compiler, without twinnet: shared by engines and `repro.py`.

The source of this function is copied into `repro.py`, so it must not use twinnet.
"""

from __future__ import annotations

from typing import Any

__all__ = ["typed_model"]


def typed_model(
    model: Any, feeds: dict[str, Any], static: bool, oldest: int, opset: int
) -> tuple[Any, dict[str, Any], int]:
    """Prepare an ONNX model for a compiler; returns it, the known tensor types, and the opset it was converted from.

    A model with an opset below `oldest` is converted to `opset` (otherwise the third result is 0); with `static`,
    shapes are those of `feeds`; functions are inlined; outputs have types.
    """
    import onnx
    import onnx.checker
    import onnx.inliner
    import onnx.shape_inference
    import onnx.version_converter

    own = onnx.ModelProto()
    own.CopyFrom(model)
    if own.functions:
        own = onnx.inliner.inline_local_functions(own)
    # Exceptions that onnx's C++ code raises.
    refused = (
        *(RuntimeError, ValueError, IndexError, onnx.checker.ValidationError),
        *(onnx.shape_inference.InferenceError, onnx.version_converter.ConvertError),
    )
    own_opset = max((o.version for o in own.opset_import if o.domain in ("", "ai.onnx")), default=0)
    converted = 0
    if 0 < own_opset < oldest:
        try:
            own = onnx.version_converter.convert_version(own, opset)
            converted = own_opset
        except refused:  # left as it is; the compiler reports what it does not support
            converted = 0
    graph = own.graph
    if static:
        held = {t.name for t in graph.initializer}
        for info in graph.input:
            if info.name in feeds and info.name not in held:
                kind = info.type.tensor_type.elem_type
                info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, kind, feeds[info.name].shape))
        # Stored shapes with open dimensions would conflict with the fixed ones.
        del graph.value_info[:]
    declared = {info.name: onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in graph.output}
    for info in graph.output:
        if static and info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(own, data_prop=True).graph
    except refused:  # an inconsistent model: the compiler gives the better message
        inferred = graph
    untold = (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED)
    known = {
        i.name: i
        for i in (*inferred.value_info, *inferred.output)
        if i.type.tensor_type.elem_type not in untold and i.type.tensor_type.HasField("shape")
    }
    for info in graph.output:
        # What cannot be inferred keeps its declared type.
        info.CopyFrom(known.setdefault(info.name, declared[info.name]))
    return own, known, converted
