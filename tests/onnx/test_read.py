"""Reading ONNX: exported networks, opsets, constants, control flow, what cannot be read."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from tests.layers.judging import capture, judge, tappable
from tests.nets import NETS
from twinnet.errors import UsageError
from twinnet.layers import evaluate
from twinnet.layers.kinds import UnknownLayer
from twinnet.onnx.read import read_onnx

FLOAT = TensorProto.FLOAT


def model(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], opset: int = 18, **more: Any
) -> onnx.ModelProto:
    """A model of float inputs with the given shapes."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        **more,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize(("name", "opset"), [*((n, 18) for n in sorted(NETS)), ("transformer", 23)])
def test_exported_networks(name: str, opset: int) -> None:
    module, args, kwargs = NETS[name]()
    with torch.no_grad():
        program = torch.onnx.export(
            module, args, kwargs=kwargs, dynamo=True, opset_version=opset, verbose=False
        )
    assert program is not None
    proto = program.model_proto
    graph = read_onnx(proto)
    assert not [layer for layer in graph if layer.kind == "opaque"]
    bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments  # in the order of the signature
    leaves = [t for t in torch.utils._pytree.tree_leaves(list(bound.values())) if isinstance(t, torch.Tensor)]
    inputs = {i.name: np.asarray(t) for i, t in zip(proto.graph.input, leaves)}
    ratios = judge(graph, capture(proto, tappable(graph, proto), inputs))
    assert ratios[0].ratio <= 4.0, (ratios[0].layer, ratios[0].ratio)
    if name in ("mbconv", "transformer", "unet"):
        assert any(layer.module for layer in graph)
    assert any("nets.py:" in layer.source for layer in graph)


def test_shapes_and_moved_weights_become_constants() -> None:
    w = helper.make_tensor("w", FLOAT, [2, 3], np.arange(6.0))
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zero"], ["n1"]),
        helper.make_node("Concat", ["n1", "minus"], ["to"], axis=0),
        helper.make_node("MatMul", ["x", "wt"], ["y"]),
        helper.make_node("Reshape", ["y", "to"], ["z"]),
    ]
    ints = [helper.make_tensor("minus", TensorProto.INT64, [1], [-1])]
    ints.append(helper.make_tensor("zero", TensorProto.INT64, [], [0]))
    nodes[3] = helper.make_node("Reshape", ["n", "minus"], ["n1"])
    graph = read_onnx(model(nodes, {"x": [4, 3]}, ["z"], initializer=[w, *ints]))
    assert [layer.kind for layer in graph] == ["matmul", "reshape"]
    assert graph.constants["to"].tolist() == [4, -1]
    assert torch.equal(graph.constants["wt"], torch.arange(6.0).reshape(2, 3).t())


def test_arithmetic_on_constants_is_left_to_evaluation() -> None:
    a = helper.make_tensor("a", FLOAT, [1], [0.1])
    nodes = [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("Add", ["x", "b"], ["y"])]
    graph = read_onnx(model(nodes, {"x": [1]}, ["y"], initializer=[a]))
    assert [layer.kind for layer in graph] == ["mul", "add"]


def test_softmax_before_opset_13_flattens() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    graph = read_onnx(model([node], {"x": ["n", 3, 4]}, ["y"], opset=11))
    x = torch.randn(2, 3, 4)
    got = evaluate(graph, {"x": x})["y"]
    assert torch.allclose(got.sum((1, 2)), torch.ones(2, dtype=torch.float64))
    newer = read_onnx(model([node], {"x": ["n", 3, 4]}, ["y"], opset=13))
    assert torch.allclose(evaluate(newer, {"x": x})["y"].sum(1), torch.ones(2, 4, dtype=torch.float64))


def test_attributes_that_became_inputs() -> None:
    x = torch.randn(2, 3, 4)
    nodes = [
        helper.make_node("Clip", ["x"], ["a"], min=-0.5, max=0.5),
        helper.make_node("Slice", ["a"], ["b"], starts=[1], ends=[3], axes=[2]),
        helper.make_node("ReduceSum", ["b"], ["c"], axes=[1], keepdims=0),
        helper.make_node("Unsqueeze", ["c"], ["d"], axes=[0]),
        helper.make_node("Pad", ["d"], ["e"], pads=[0, 0, 1, 0, 0, 0]),
        helper.make_node("Split", ["e"], ["f", "g"], axis=2, split=[1, 2]),
    ]
    graph = read_onnx(model(nodes, {"x": [2, 3, 4]}, ["f", "g"], opset=9))
    got = evaluate(graph, {"x": x})
    wanted = x.double().clamp(-0.5, 0.5)[:, :, 1:3].sum(1)[None]
    assert torch.equal(got["f"], torch.zeros(1, 2, 1, dtype=torch.float64))
    assert torch.allclose(got["g"], wanted)


def test_branches_are_graphs_of_their_own() -> None:
    def branch(name: str, op: str) -> onnx.GraphProto:
        node = helper.make_node(op, ["outer", "c"], [name])
        return helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(name)])

    nodes = [
        helper.make_node("Relu", ["x"], ["outer"]),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["go"]),
        helper.make_node("If", ["go"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Mul")),
    ]
    constants = [helper.make_tensor("c", FLOAT, [], [2.0]), helper.make_tensor("zero", FLOAT, [], [0.0])]
    graph = read_onnx(model(nodes, {"x": [2]}, ["y"], initializer=constants))
    assert graph.layers[-1].inputs == ("go", "outer")
    assert evaluate(graph, {"x": torch.tensor([1.0, 3.0])})["y"].tolist() == [3.0, 5.0]
    assert evaluate(graph, {"x": torch.tensor([1.0, -3.0])})["y"].tolist() == [2.0, 0.0]


def test_random_operators_are_unknown_and_named() -> None:
    node = helper.make_node("RandomNormalLike", ["x"], ["y"], name="noise")
    graph = read_onnx(model([node], {"x": [2]}, ["y"]))
    with pytest.raises(UnknownLayer, match="RandomNormalLike 'noise' is random"):
        evaluate(graph, {"x": torch.zeros(2)})


def test_an_operator_of_nobody_is_unknown_and_named() -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="it", domain="my.company")
    proto = model([node], {"x": [2]}, ["y"])
    proto.opset_import.append(helper.make_opsetid("my.company", 1))
    with pytest.raises(UnknownLayer, match="Frobnicate"):
        evaluate(read_onnx(proto), {"x": torch.zeros(2)})


def test_weights_that_were_not_loaded() -> None:
    w = onnx.TensorProto(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [2]}, ["y"], initializer=[w])
    with pytest.raises(UsageError, match="'w' are in another file"):
        read_onnx(proto)
    graph = read_onnx(proto, weights={"w": np.array([1.0, 2.0], np.float32)})
    assert evaluate(graph, {"x": torch.zeros(2)})["y"].tolist() == [1.0, 2.0]


def test_fused_operators_of_onnxruntime() -> None:
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    node = helper.make_node(
        "FusedConv",
        ["x", "w"],
        ["y"],
        domain="com.microsoft",
        activation="Clip",
        activation_params=[0.0, 0.5],
    )
    weights = helper.make_tensor("w", FLOAT, list(w.shape), w.reshape(-1).tolist())
    proto = model([node], {"x": [1, 2, 5, 5]}, ["y"], initializer=[weights])
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    got = evaluate(read_onnx(proto), {"x": x})["y"]
    wanted = torch.nn.functional.conv2d(x.double(), w.double()).clamp(0, 0.5)
    assert torch.allclose(got, wanted, atol=1e-12)


def _steps(low: float, high: float, seed: int, shape: tuple[int, ...], dtype: type) -> dict[str, np.ndarray]:
    """Whole numbers with their scale and zero point."""
    info = np.iinfo(dtype)
    data = np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)
    zero = np.array(info.min + 100 if dtype is np.uint8 else 3, dtype)
    return {"": data, "_scale": np.array((high - low) / 255, np.float32), "_zero": zero}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul", "QLinearLeakyRelu", "QLinearSigmoid"])
def test_quantised_operators_of_onnxruntime(op: str, dtype: type) -> None:
    operands = {"a": _steps(-1, 1, 1, (2, 3, 8, 9), dtype)}
    if op in ("QLinearAdd", "QLinearMul"):
        operands["b"] = _steps(-2, 1, 2, (1, 3, 1, 9), dtype)
    result = _steps(-3, 2, 3, (), dtype)
    _compare_quantised(op, operands, {}, {"y_scale": result["_scale"], "y_zero": result["_zero"]}, {})


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("real", [False, True])
def test_quantised_gemm_of_onnxruntime(turned: int, real: bool) -> None:
    operands = {"a": _steps(-1, 1, 1, (7, 32), np.uint8)}
    operands["b"] = _steps(-0.5, 0.5, 2, (16, 32) if turned else (32, 16), np.int8)
    operands["b"][""] >>= 1  # seven bits: a processor without VNNI saturates sums of two 8-bit products
    operands["b"]["_scale"] = np.linspace(0.001, 0.004, 16).astype(np.float32)  # a step for each column
    operands["b"]["_zero"] = np.zeros(16, np.int8)
    bias = {"c": np.random.default_rng(5).integers(-9000, 9000, 16).astype(np.int32)}
    result = {} if real else {"y_scale": np.array(0.05, np.float32), "y_zero": np.array(120, np.uint8)}
    _compare_quantised("QGemm", operands, bias, result, {"alpha": 1.0, "transB": turned})


def _compare_quantised(op, operands, bias, result, attrs) -> None:
    """What the layers give, beside onnxruntime itself."""
    ort = pytest.importorskip("onnxruntime")
    values = {f"{n}{part}": v for n, parts in operands.items() for part, v in parts.items()}
    names = [*values, *bias, *result]
    node = helper.make_node(op, names, ["y"], domain="com.microsoft", **attrs)
    held = {**values, **bias, **result}
    data = held.pop("a")
    proto = helper.make_model(
        helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("a", helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)],
            [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(v, n) for n, v in held.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )
    (theirs,) = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"a": data}
    )
    ours = evaluate(read_onnx(proto), {"a": torch.from_numpy(data)})["y"].numpy()
    assert ours.shape == theirs.shape and ours.dtype.kind == theirs.dtype.kind
    if ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        return
    assert ours.dtype == theirs.dtype
    off = np.abs(ours.astype(np.int64) - theirs)
    assert off.max() <= 1 and (off > 0).mean() < 0.01  # a value between two steps may be rounded to either
    assert len(np.unique(theirs)) > 20
