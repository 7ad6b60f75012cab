"""Steps joined to layers: what computes owns a layer, what only changes form helps."""

from __future__ import annotations

from pathlib import Path

from onnx import GraphProto, NodeProto, TensorProto, helper

from twinnet.engines._executorch_profile import step_times
from twinnet.engines._ort_profile import made_by_nodes
from twinnet.engines.timing import LayerTime, Span
from twinnet.executorch import Method, Node, Record, Run
from twinnet.executorch.dump import Step
from twinnet.executorch.record import Origin
from twinnet.layers.graph import Graph, Layer
from twinnet.profile.join import Joiner

NET = Graph((Layer("linear", ("x",), ("y",)), Layer("relu", ("y",), ("z",))), ("x",), ("z",))


def step(op: str, seconds: float, *tensors: str, toward: tuple[str, ...] = ()) -> LayerTime:
    return LayerTime(op, op, (Span(0, seconds),), tensors, toward=toward)


def test_a_product_owns_its_layer_although_only_what_converts_it_names_the_value() -> None:
    steps = [
        step("QGemm", 2.0, toward=("y",)),
        step("DequantizeLinear", 9.0, "y"),
        step("Relu", 1.0, "z"),
    ]
    product, convert, relu = Joiner(NET, {"y": "y", "z": "z"}).join(steps)
    assert [layer.kind for layer in product.layers] == ["linear"] and not product.helps
    assert convert.helps and convert.sites == product.sites == ("y",)
    assert [layer.kind for layer in relu.layers] == ["relu"]


def test_a_border_does_not_own_the_convolution_behind_it() -> None:
    """LiteRT pads in a step of its own, which may take longer than a small convolution."""
    net = Graph((Layer("conv", ("x",), ("y",)), Layer("relu", ("y",), ("z",))), ("x",), ("z",))
    steps = [step("PAD", 2.0, toward=("z",)), step("CONV_2D+RELU", 1.0, "z")]
    pad, conv = Joiner(net, {"z": "z"}).join(steps)
    assert pad.helps and not conv.helps and [layer.kind for layer in conv.layers] == ["conv", "relu"]


def test_a_step_that_only_moves_keeps_a_layer_that_no_other_computes() -> None:
    (only,) = Joiner(NET, {"z": "z"}).join([step("Transpose", 1.0, "z")])
    assert not only.helps and [layer.kind for layer in only.layers] == ["linear", "relu"]


def test_nodes_made_again_for_another_layout_make_what_they_made_before() -> None:
    def graph(*nodes: NodeProto) -> GraphProto:
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "y")]
        return helper.make_graph(nodes, "g", ends[:1], ends[1:])

    before = graph(helper.make_node("QLinearConv", ["x"], ["y"], "conv"))
    after = graph(
        helper.make_node("Transpose", ["x"], ["t0"], "Transpose"),
        helper.make_node("QLinearConv", ["t0"], ["t1"], "conv_token_1"),
        helper.make_node("Transpose", ["t1"], ["y"], "Transpose_token_2"),
    )
    made = made_by_nodes(after, before, frozenset({"y"}))
    assert made["conv_token_1"] == (("y",), ()) and made["Transpose"] == ((), ("y",))


def test_executorch_steps_name_values_that_no_instruction_shows() -> None:
    def node(name: str, op: str, handle: int, reads: str, origin: str) -> Node:
        origins = (Origin(origin, "", 7),) if origin else ()
        return Node(name, f"aten.{op}.default", handle, (reads,), (name,), origins=origins)

    nodes = (
        node("p", "permute_copy", 1, "w", "linear"),
        node("a", "addmm", 1, "p", "linear"),
        node("m", "mul", 2, "a", ""),
        node("r", "relu", 3, "m", "relu"),
    )
    method = Method(nodes, {0: (1,), 1: (1,), 2: (2,), 3: (3,)}, {}, {}, {})
    record = Record(Path("r"), {"forward": method}, None, 7, frozenset())
    logged = [
        Step(f"native_call_{n.op.split('.')[1]}.out", 0, i, None, 10 * i, 10 * i + 5)
        for i, n in enumerate(nodes)
    ]
    steps = step_times([Run("Execute", tuple(logged), ())], record, "forward", {"relu"})
    assert [s.tensors for s in steps] == [("linear",), ("linear",), (), ("relu",)]
    assert steps[2].toward == ("relu",)


def test_what_is_fused_with_a_convolution_in_its_own_layout_belongs_to_it() -> None:
    """It keeps the name of what it made before a sum and an activation, here in two operators, became part of it."""
    node = helper.make_node
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "end")]
    before = [
        node("Conv", ["x", "w"], ["a"], "c1"),
        node("HardSigmoid", ["a"], ["inner"]),
        node("Mul", ["a", "inner"], ["swish"]),
        node("Conv", ["swish", "w"], ["b"], "c2"),
        node("Add", ["b", "x"], ["sum"], "add"),
        node("Relu", ["sum"], ["relu"], "relu"),
        node("Conv", ["relu", "w"], ["end"], "c3"),
    ]
    after = [
        node("Conv", ["x", "w"], ["t1"], "a_nchwc", domain="com.microsoft.nchwc", activation="HardSwish"),
        node(
            "Conv",
            ["t1", "w", "", "x"],
            ["t2"],
            "b_nchwc",
            domain="com.microsoft.nchwc",
            activation="Relu",
        ),
        node("Conv", ["t2", "w"], ["t3"], "end_nchwc", domain="com.microsoft.nchwc"),
        node("ReorderOutput", ["t3"], ["end"], "r"),
    ]
    graphs = [helper.make_graph(nodes, "g", ends[:1], ends[1:]) for nodes in (after, before)]
    made = made_by_nodes(graphs[0], graphs[1], frozenset({"a", "swish", "b", "sum", "relu", "end"}))
    assert [made[name][0] for name in ("a_nchwc", "b_nchwc", "end_nchwc")] == [
        ("swish",),
        ("relu",),
        ("end",),
    ]
